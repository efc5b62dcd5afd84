//! One run once more.

use crate::corpus::Case;
use crate::world::World;
use crate::{crash, metamorphic};

/// Runs `case` again; what went wrong, if something did.
pub fn replay(case: &Case, world: &dyn World) -> Result<(), String> {
    match case.cut {
        None => metamorphic::attempt(world, &case.script, case.knobs).map(drop),
        Some(cut) => crash::attempt(world, &case.script, case.knobs, cut).map(drop),
    }
}
