//! What storage does that it should not, and what is left then.

mod power;
mod damage;
mod full_disk;
