//! Where an element is in a list.

use firn_format::datatype::Tag;

use super::elements;
use super::ends::End;
use crate::execute::call::Call;
use crate::failure::{Failure, Result};

/// What `LPOS` is asked for.
#[derive(Debug)]
struct Asked {
    /// From where it searches.
    from: End,
    /// Matches before the first that is answered.
    skipped: u64,
    /// How many are answered; `None` = one, by itself.
    count: Option<u64>,
    /// How many elements are compared.
    compared_max: u64,
}

impl Asked {
    fn of(call: &Call<'_>) -> Result<Self> {
        let mut asked = Self { from: End::Left, skipped: 0, count: None, compared_max: u64::MAX };
        let natural = |index: usize, otherwise: &'static str| {
            let number = call.integer(index).ok().and_then(|number| u64::try_from(number).ok());
            // 0 is all of them.
            number.map(|number| if number == 0 { u64::MAX } else { number }).ok_or(Failure::new(otherwise))
        };
        for index in (3..call.arguments.len()).step_by(2) {
            if index + 1 == call.arguments.len() {
                return Err(Failure::SYNTAX);
            } else if call.is_word(index, "rank") {
                let rank = call.integer(index + 1)?;
                if rank == 0 {
                    return Err(Failure::new(RANK_0));
                }
                asked.from = if rank < 0 { End::Right } else { End::Left };
                asked.skipped = rank.unsigned_abs() - 1;
            } else if call.is_word(index, "count") {
                asked.count = Some(natural(index + 1, "ERR COUNT can't be negative")?);
            } else if call.is_word(index, "maxlen") {
                asked.compared_max = natural(index + 1, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(asked)
    }
}

const RANK_0: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                      negative to start from the end of the list";

/// `LPOS key element [RANK rank] [COUNT matches] [MAXLEN len]`
pub(super) async fn find(call: &mut Call<'_>) -> Result<()> {
    let asked = Asked::of(call)?;
    let mut found = Vec::new();
    if let Some(list) = call.collection(1, Tag::List).await? {
        found = matches(call, &list, &asked).await?;
    }
    call.reply(|reply| match asked.count {
        Some(_) => {
            reply.array(found.len());
            found.iter().for_each(|place| reply.integer(*place as i64));
        }
        None => match found.first() {
            Some(place) => reply.integer(*place as i64),
            None => reply.null(),
        },
    });
    Ok(())
}

/// Places of the matches, in the order of the search.
async fn matches(
    call: &mut Call<'_>,
    list: &crate::transaction::Collection,
    asked: &Asked,
) -> Result<Vec<u64>> {
    let wanted = call.argument(2);
    let compared = asked.compared_max.min(list.count());
    let (head, tail) = list.ends();
    let (indexes, mut place) = match asked.from {
        End::Left => (head..head + compared, 0),
        End::Right => (tail - compared..tail, list.count().saturating_sub(1)),
    };
    let mut left = asked.count.unwrap_or(1);
    let mut skipped = 0;
    let mut found = Vec::new();
    let mut walk = elements(call.transaction, list, indexes, asked.from.inward())?;
    while let Some((_, element)) = walk.next().await? {
        if element == wanted {
            if skipped < asked.skipped {
                skipped += 1;
            } else {
                found.push(place);
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
        place = match asked.from {
            End::Left => place + 1,
            End::Right => place.wrapping_sub(1),
        };
    }
    Ok(found)
}
