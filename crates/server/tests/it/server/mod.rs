//! What operators and libraries ask.

mod command;
mod small;
