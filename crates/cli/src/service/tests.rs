use super::*;

#[test]
fn a_worker_touches_what_lies_in_its_locations_and_no_neighbour() {
    let place = tempfile::tempdir().expect("a directory");
    let inside = place.path().join("in");
    std::fs::create_dir_all(inside.join("db")).expect("made");
    std::fs::create_dir_all(place.path().join("inner")).expect("made");
    std::os::unix::fs::symlink(place.path().join("inner"), inside.join("way")).expect("made");
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let allowed = Allowed::new(&[text(&inside), "s3://bucket/a/".to_owned()], None).expect("locations");
    let may = [
        text(&inside),
        text(&inside.join("db")),
        format!("file://{}", text(&inside)),
        "s3://bucket/a".to_owned(),
    ];
    for name in may.iter().chain([&"s3://bucket/a/b".to_owned()]) {
        assert!(allowed.find(name).is_some(), "{name}");
    }
    let neighbours =
        [place.path().to_owned(), place.path().join("inner"), inside.join("way"), inside.join("../inner")];
    for name in neighbours
        .iter()
        .map(|path| text(path))
        .chain(["s3://bucket/ab", "s3://bucket", "s3://bucket/a/../b", "gs://bucket/a"].map(str::to_owned))
    {
        assert_eq!(allowed.find(&name), None, "{name}");
    }
    // A parser of URLs would make `..` of them.
    for name in [
        "%2e%2e/b",
        ".%2E/b",
        "%2E./b",
        "./b",
        ".\t./b",
        "..\\b",
        "b/%2e%2e/%2e%2e/c",
        "b\n",
        "..?",
        "..#x",
        ".. ",
        "%2e%2e?",
    ] {
        assert_eq!(allowed.find(&format!("s3://bucket/a/{name}")), None, "{name:?}");
    }
    assert!(allowed.find("s3://bucket/a/b%20c..d/...").is_some(), "these are names");
    let error = allowed.open("s3://other/db").expect_err("refused");
    assert!(error.to_string().contains("--within"), "{error}");
}

#[test]
fn a_location_without_a_name_is_not_everything() {
    for nothing in ["", "file://", "s3://", "s3:///x"] {
        let error = Allowed::new(&["s3://bucket/a".to_owned(), nothing.to_owned()], None).expect_err("none");
        assert!(error.to_string().contains("names nothing"), "{error}");
    }
}

#[test]
fn weights_and_tenants_that_are_none_are_refused_with_what_is_expected() {
    assert_eq!((parse_weight("2.5"), parse_weight("1000")), (Ok(2.5), Ok(1000.0)));
    for wrong in ["0", "-1", "nan", "inf", "1001", "", "two"] {
        assert!(parse_weight(wrong).is_err_and(|why| why.contains("0.001 to 1000")), "{wrong}");
    }
    assert_eq!(parse_tenant("team a").as_deref(), Ok("team a"));
    for wrong in ["", " ", " a", "a\n", "a\tb", &"x".repeat(257)] {
        assert!(parse_tenant(wrong).is_err_and(|why| why.contains("1 to 256 bytes")), "{wrong:?}");
    }
}

#[test]
fn no_two_starts_draw_the_same() {
    let drawn: std::collections::BTreeSet<u128> = (0..1000).map(|_| draw()).collect();
    assert_eq!(drawn.len(), 1000);
}

#[test]
fn what_stays_on_the_machine_or_is_encrypted_is_no_reason_to_warn() {
    for near in ["http://127.0.0.1:7380", "http://[::1]:7380", "http://localhost:1", "https://10.0.0.5:7380"]
    {
        assert!(!is_plain_and_far(near), "{near}");
    }
    for far in [
        "http://10.0.0.5:7380",
        "http://[fd00::1]:7380",
        "http://planes.example",
        "http://localhost.example:1",
    ] {
        assert!(is_plain_and_far(far), "{far}");
    }
}
