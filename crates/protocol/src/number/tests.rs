use super::*;

fn integer(number: i64) -> String {
    let mut out = Vec::new();
    append_integer(&mut out, number);
    String::from_utf8(out).unwrap()
}

fn double(number: f64) -> String {
    let mut out = Vec::new();
    append_double(&mut out, number);
    String::from_utf8(out).unwrap()
}

#[test]
fn integers_read_back() {
    for number in [0, 1, -1, 9, 10, -10, i64::MAX, i64::MIN, 1234567890123456789] {
        assert_eq!(parse_integer(integer(number).as_bytes()), Some(number));
    }
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..10_000 {
        let number = rng.i64(..) >> rng.u32(0..64);
        assert_eq!(parse_integer(integer(number).as_bytes()), Some(number), "seed 3");
    }
}

#[test]
fn what_is_written_otherwise_is_no_integer() {
    let others = [
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "01",
        "-0",
        "00",
        "1.0",
        "1e3",
        "0x10",
        "--1",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "99999999999999999999",
        "١",
    ];
    for text in others {
        assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn doubles_are_written_in_17_digits_and_read_back() {
    let cases = [
        (3.0, "3"),
        (-3.0, "-3"),
        (0.1, "0.10000000000000001"),
        (1.1, "1.1000000000000001"),
        (-0.5, "-0.5"),
        (0.03, "0.029999999999999999"),
        (3.3, "3.2999999999999998"),
        (1e22, "1e+22"),
        (1e300, "1.0000000000000001e+300"),
        (5e-324, "4.9406564584124654e-324"),
        (1234567890123456789.0, "1.2345678901234568e+18"),
        (9007199254740994.0, "9007199254740994"),
        (98765432109876540.0, "98765432109876544"),
        (1125899906842624.0 + 0.25, "1125899906842624.2"),
        (1125899906842624.0 + 0.75, "1125899906842624.8"),
        (0.0001, "0.0001"),
        (0.00001, "1.0000000000000001e-05"),
        (1e16, "10000000000000000"),
        (1e17, "1e+17"),
        (1.5e300, "1.5000000000000001e+300"),
        (-2.5e-7, "-2.4999999999999999e-07"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
        (-0.0, "-0"),
        (123456.789, "123456.789"),
    ];
    for (number, text) in cases {
        assert_eq!(double(number), text);
    }
    let mut rng = fastrand::Rng::with_seed(4);
    for _ in 0..10_000 {
        let number = f64::from_bits(rng.u64(..));
        if !number.is_nan() {
            assert_eq!(parse_double(double(number).as_bytes()), Some(number), "seed 4");
        }
    }
}

#[test]
fn what_is_no_number_is_refused() {
    for text in ["", "nan", "-nan", "1 ", " 1", "1,5", "abc", "1e", "0x1p", "\u{ff}"] {
        assert_eq!(parse_double(text.as_bytes()), None, "{text:?}");
    }
    for (text, number) in [
        ("+1.5", 1.5),
        ("Inf", f64::INFINITY),
        ("-INFINITY", f64::NEG_INFINITY),
        ("1e3", 1e3),
        ("0x1p3", 8.0),
    ] {
        assert_eq!(parse_double(text.as_bytes()), Some(number));
    }
}
