use super::*;

fn text(client: usize, begin: u64, end: Option<(u64, Answer)>, input: TextInput) -> Operation<Text> {
    Operation { client, begin, end, input }
}

fn set(begin: u64, end: u64, value: &str) -> Operation<Text> {
    text(0, begin, Some((end, Answer::Ok)), TextInput::Set(value.into()))
}

fn get(begin: u64, end: u64, value: &str) -> Operation<Text> {
    text(1, begin, Some((end, Answer::Text(value.into()))), TextInput::Get)
}

fn get_none(begin: u64, end: u64) -> Operation<Text> {
    text(1, begin, Some((end, Answer::None)), TextInput::Get)
}

fn lost_set(begin: u64, value: &str) -> Operation<Text> {
    text(0, begin, None, TextInput::Set(value.into()))
}

#[test]
fn reads_beside_a_write_see_either() {
    assert!(check(&[set(0, 10, "a"), get_none(1, 2), get(3, 4, "a")]).is_ok());
    assert!(
        check(&[set(0, 10, "a"), get(1, 2, "a"), get(3, 4, "a"), set(11, 12, "b"), get(13, 14, "b")]).is_ok()
    );
}

#[test]
fn a_read_that_goes_back_is_an_anomaly() {
    assert!(check(&[set(0, 10, "a"), get(1, 2, "a"), get_none(3, 4)]).is_err());
    assert!(check(&[set(0, 1, "a"), set(2, 3, "b"), get(4, 5, "a")]).is_err(), "an old value");
    assert!(check(&[set(0, 1, "a"), get_none(2, 3)]).is_err(), "a write that was lost");
    assert!(check(&[get(0, 1, "a"), set(2, 3, "a")]).is_err(), "a value from the future");
}

#[test]
fn what_was_never_answered_may_have_happened_at_any_time_or_never() {
    assert!(check(&[lost_set(0, "a"), get_none(1, 2)]).is_ok());
    assert!(check(&[lost_set(0, "a"), get_none(1, 2), get(100, 101, "a")]).is_ok());
    assert!(check(&[lost_set(0, "a"), get(1, 2, "a"), get_none(3, 4)]).is_err(), "once it has, it has");
    assert!(check(&[lost_set(5, "a"), get(1, 2, "a")]).is_err(), "before it was asked");
}

#[test]
fn numbers_that_change_together_are_never_seen_apart() {
    let operation = |begin, end, input, answer| Operation::<Counters> {
        client: 0,
        begin,
        end: Some((end, answer)),
        input,
    };
    let both = |begin, end, sums: [i64; 2]| {
        operation(begin, end, CountersInput::AddAll(vec![(0, 1), (1, -1)]), Answer::Numbers(sums.to_vec()))
    };
    let read = |begin, end, seen: [i64; 2]| {
        operation(begin, end, CountersInput::Read(vec![0, 1]), Answer::Numbers(seen.to_vec()))
    };
    assert!(check(&[both(0, 9, [1, -1]), both(1, 8, [2, -2]), read(2, 3, [1, -1])]).is_ok());
    assert!(check(&[both(0, 9, [1, -1]), read(2, 3, [1, 0])]).is_err());
    assert!(check(&[both(0, 9, [1, -1]), both(1, 8, [1, -1])]).is_err(), "one increment was lost");
}

#[test]
fn an_element_is_popped_once_and_in_order() {
    let push = |begin, end, element: &str| Operation::<List> {
        client: 0,
        begin,
        end: Some((end, Answer::Ok)),
        input: ListInput::Push(element.into()),
    };
    let pop = |begin, end, element: &str| Operation::<List> {
        client: 1,
        begin,
        end: Some((end, Answer::Text(element.into()))),
        input: ListInput::Pop,
    };
    assert!(check(&[pop(0, 5, "a"), push(1, 2, "a")]).is_ok(), "it waited");
    assert!(check(&[push(0, 1, "a"), push(2, 3, "b"), pop(4, 5, "b"), pop(4, 5, "a")]).is_ok());
    assert!(check(&[push(0, 1, "a"), push(2, 3, "b"), pop(4, 5, "b"), pop(6, 7, "a")]).is_err());
    assert!(check(&[push(0, 1, "a"), pop(2, 3, "a"), pop(2, 3, "a")]).is_err());
}

/// Kills leave operations without an answer: each may come anywhere, and most never came.
#[test]
fn what_never_happened_costs_no_search() {
    const BACKLOG: u64 = 20;
    let push = |begin: u64, element: u64, is_answered: bool| Operation::<List> {
        client: 0,
        begin,
        end: is_answered.then_some((begin + 1, Answer::Ok)),
        input: ListInput::Push(element.to_string()),
    };
    let pop = |begin: u64, element: u64| Operation::<List> {
        client: 1,
        begin,
        end: Some((begin + 1, Answer::Text(element.to_string()))),
        input: ListInput::Pop,
    };
    let mut history = Vec::new();
    for number in 0..500 {
        history.push(push(10 * number, number, true));
        if number % 50 == 0 {
            history.push(push(10 * number + 2, 1_000_000 + number, false));
        }
        if let Some(popped) = number.checked_sub(BACKLOG) {
            history.push(pop(10 * number + 5, popped));
        }
    }
    let mut search = Search::new(&history);
    assert!(search.run());
    assert_eq!(search.seen.len(), history.len() - 10, "no order but the first was tried");
    // One of them did happen, which shows when its turn comes.
    for operation in &mut history {
        if let (ListInput::Pop, Some((_, answer))) = (&operation.input, &mut operation.end) {
            let turn = (operation.begin - 5) / 10 - BACKLOG;
            let element = match turn {
                0..=200 => turn,
                201 => 1_000_200,
                _ => turn - 1,
            };
            *answer = Answer::Text(element.to_string());
        }
    }
    let mut search = Search::new(&history);
    assert!(search.run());
    assert!(search.seen.len() < 100 * history.len(), "{} states", search.seen.len());
}

/// Histories of a real order, cut into overlapping operations, are linearizable; with one answer
/// changed to that of another moment they are mostly not.
#[test]
fn drawn_histories_are_judged_rightly() {
    let seed = 1;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut noticed = 0;
    for _ in 0..200 {
        let mut state = Counters::initial();
        let mut history: Vec<Operation<Counters>> = Vec::new();
        for moment in 0..40_u64 {
            let input = match rng.u8(..3) {
                0 => CountersInput::Add(0, 1),
                1 => CountersInput::AddAll(vec![(0, 1), (1, 1)]),
                _ => CountersInput::Read(vec![0, 1]),
            };
            let (output, next) = Counters::step(&state, &input);
            state = next;
            let at = moment * 10;
            let (begin, end) = (at.saturating_sub(rng.u64(..25)), at + 1 + rng.u64(..25));
            let end = (rng.u8(..) > 10).then_some((end, output));
            history.push(Operation { client: rng.usize(..4), begin, end, input });
        }
        rng.shuffle(&mut history);
        if let Err(anomaly) = check(&history) {
            panic!("seed {seed}: {}", anomaly.explanation);
        }
        let changed = history.iter_mut().filter(|operation| operation.end.is_some()).nth(rng.usize(..20));
        if let Some((_, Answer::Numbers(numbers))) = changed.and_then(|operation| operation.end.as_mut()) {
            numbers[0] += 20;
            noticed += usize::from(check(&history).is_err());
        }
    }
    assert!(noticed > 50, "seed {seed}: {noticed}");
}
