//! Objects that a server keeps, as models.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::Model;

/// What a server answers, as far as models tell answers apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Done.
    Ok,
    /// Nothing there, or nothing came in time.
    None,
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// Several numbers.
    Numbers(Vec<i64>),
}

/// A string.
#[derive(Clone, Debug)]
pub struct Text;

/// What is asked of a string.
#[derive(Clone, Debug)]
pub enum TextInput {
    /// `GET`
    Get,
    /// `SET`
    Set(String),
    /// `APPEND`, which answers the length.
    Append(String),
    /// `GETDEL`
    GetDel,
}

impl Model for Text {
    type State = Option<String>;
    type Input = TextInput;
    type Output = Answer;

    fn initial() -> Self::State {
        None
    }

    fn step(state: &Self::State, input: &TextInput) -> (Answer, Self::State) {
        let answer = |state: &Option<String>| state.clone().map_or(Answer::None, Answer::Text);
        match input {
            TextInput::Get => (answer(state), state.clone()),
            TextInput::Set(text) => (Answer::Ok, Some(text.clone())),
            TextInput::GetDel => (answer(state), None),
            TextInput::Append(text) => {
                let text = state.clone().unwrap_or_default() + text;
                (Answer::Number(text.len() as i64), Some(text))
            }
        }
    }
}

/// Several numbers that are changed and read together.
#[derive(Clone, Debug)]
pub struct Counters;

/// What is asked of numbers, which are named by small numbers.
#[derive(Clone, Debug)]
pub enum CountersInput {
    /// `INCRBY`, which answers the sum.
    Add(u8, i64),
    /// Several of these at once (`EXEC`, a script): the sums.
    AddAll(Vec<(u8, i64)>),
    /// All of these at once (`MGET`).
    Read(Vec<u8>),
}

impl Model for Counters {
    type State = BTreeMap<u8, i64>;
    type Input = CountersInput;
    type Output = Answer;

    fn initial() -> Self::State {
        BTreeMap::new()
    }

    fn step(state: &Self::State, input: &CountersInput) -> (Answer, Self::State) {
        let mut state = state.clone();
        let mut add = |name: u8, amount: i64| {
            let number = state.entry(name).or_default();
            *number += amount;
            *number
        };
        let answer = match input {
            CountersInput::Add(name, amount) => Answer::Number(add(*name, *amount)),
            CountersInput::AddAll(all) => {
                Answer::Numbers(all.iter().map(|(name, amount)| add(*name, *amount)).collect())
            }
            CountersInput::Read(names) => {
                Answer::Numbers(names.iter().map(|name| state.get(name).copied().unwrap_or(0)).collect())
            }
        };
        (answer, state)
    }
}

/// A list that is a queue.
#[derive(Clone, Debug)]
pub struct List;

/// What is asked of a list.
#[derive(Clone, Debug)]
pub enum ListInput {
    /// `RPUSH`, whose answer is not looked at: a client that waits takes the element before it is
    /// counted.
    Push(String),
    /// `BLPOP` or `LPOP`: the first element.
    Pop,
}

impl Model for List {
    type State = VecDeque<String>;
    type Input = ListInput;
    type Output = Answer;

    fn initial() -> Self::State {
        VecDeque::new()
    }

    fn step(state: &Self::State, input: &ListInput) -> (Answer, Self::State) {
        let mut state = state.clone();
        let answer = match input {
            ListInput::Push(element) => {
                state.push_back(element.clone());
                Answer::Ok
            }
            ListInput::Pop => state.pop_front().map_or(Answer::None, Answer::Text),
        };
        (answer, state)
    }

    /// A push of an element that no answer gave. It is in the list still, behind all that was, or
    /// went to a client that got no answer, where its absence shows nowhere. And a pop of nothing,
    /// or of what another answer gave.
    fn is_idle(state: &Self::State, input: &ListInput, answers: &HashSet<&Answer>) -> bool {
        let is_given = |element: &String| answers.contains(&Answer::Text(element.clone()));
        match input {
            ListInput::Push(element) => !is_given(element),
            ListInput::Pop => state.front().is_none_or(is_given),
        }
    }
}
