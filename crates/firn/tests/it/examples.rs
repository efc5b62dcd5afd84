//! The examples run, and what each asserts at its end holds.

/// A test that runs an example.
macro_rules! runs {
    ($($name:ident: $path:literal)+) => {$(
        #[path = $path]
        #[expect(unreachable_pub, reason = "`main` is public for the test below")]
        mod $name;

        #[test]
        fn $name() {
            $name::main().expect(stringify!($name));
        }
    )+};
}

runs! {
    hello: "../../examples/hello.rs"
    batches: "../../examples/batches.rs"
    counters: "../../examples/counters.rs"
    transactions: "../../examples/transactions.rs"
    sessions: "../../examples/sessions.rs"
    futures: "../../examples/futures.rs"
}
