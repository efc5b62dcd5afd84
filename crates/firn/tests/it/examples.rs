//! The examples run, and what each asserts at its end holds.

#[path = "../../examples/batches.rs"]
mod batches;
#[path = "../../examples/counters.rs"]
mod counters;
#[path = "../../examples/hello.rs"]
mod hello;
#[path = "../../examples/sessions.rs"]
mod sessions;

#[test]
fn hello_runs() {
    hello::main().expect("hello");
}

#[test]
fn batches_runs() {
    batches::main().expect("batches");
}

#[test]
fn counters_runs() {
    counters::main().expect("counters");
}

#[test]
fn sessions_runs() {
    sessions::main().expect("sessions");
}
