//! Options from three places.

use super::*;

fn with(environment: &[(&str, &str)], file: &str) -> Result<Effective> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("firn.toml");
    std::fs::write(&path, file).expect("it is written");
    let flags = Options { bind: Some([127, 0, 0, 7].into()), ..Options::default() };
    let environment: Vec<(OsString, OsString)> =
        environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    Effective::new(flags, environment.into_iter(), Some(&path))
}

#[test]
fn flags_go_over_the_environment_over_the_file() {
    let file = "memory_bytes = \"1 GiB\"\n[tree]\nblock_bytes = \"8 KiB\"\n\
                [serve]\nport = 1\nbind = \"127.0.0.2\"\nthreads = 3\nprotected_mode = false\n\
                tenant = \"team\"\nweight = 2\nstore_rates = \"reads=5k, write-bytes=1M\"\n";
    let environment = [("FIRN_SERVE_PORT", "2"), ("FIRN_SERVE_MEMORY_BYTES", "64M"), ("OTHER", "x")];
    let effective = with(&environment, file).unwrap();
    let options = &effective.options;
    assert_eq!((options.bind, options.port), (Some([127, 0, 0, 7].into()), Some(2)));
    assert_eq!((options.threads, options.protected_mode), (Some(3), Some(false)));
    let settings = &effective.settings;
    assert_eq!((settings.memory_bytes, settings.engine.block_bytes), (64 << 20, 8 << 10));
    assert_eq!(effective.settings.background_nice, 10);
    assert_eq!(with(&[], "background_nice = 0").unwrap().settings.background_nice, 0);
    let text = effective.to_toml();
    for (start, source) in [
        ("bind = \"127.0.0.7\" ", "# flag"),
        ("port = 2 ", "# environment"),
        ("threads = 3 ", "# file"),
        ("protected_mode = \"no\" ", "# file"),
        ("tenant = \"team\" ", "# file"),
        ("weight = 2.0 ", "# file"),
        ("store_rates = \"reads=5000,write-bytes=1048576\"", "# file"),
        ("log_format = \"text\" ", "# default"),
        ("http_port = 9379 ", "# default"),
        ("# worker = ", "# default: not set"),
        ("memory_bytes = \"64 MiB\" ", "# environment"),
        ("block_bytes = \"8 KiB\" ", "# file"),
        ("table_bytes = ", "# default"),
    ] {
        let line = text.lines().find(|line| line.starts_with(start));
        assert!(line.is_some_and(|line| line.ends_with(source)), "{start}: {text}");
    }
    // What is printed amounts to the same when it is read.
    let again = with(&[], &text).unwrap();
    let shares = |options: &Options| (options.tenant.clone(), options.weight, options.store_rates);
    assert_eq!(shares(&again.options), shares(&effective.options));
    assert_eq!((&again.options.tenant, again.options.weight), (&Some("team".to_owned()), Some(2.0)));
    assert_eq!((&again.options.port, &again.settings), (&effective.options.port, &effective.settings));
    assert_eq!(again.options.log_level, options.log_level);
}

#[test]
fn what_nobody_knows_is_refused_with_what_there_is() {
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a [&'a str]);
    let cases: [Case<'_>; 15] = [
        (&[("FIRN_SERVE_WEIGHT", "0")], "", &["FIRN_SERVE_WEIGHT = 0 is wrong", "0.001 to 1000"]),
        (&[], "[serve]\ntenant = \"\"", &["`tenant` of [serve] = ", "1 to 256 bytes"]),
        (&[("FIRN_SERVE_PROT", "1")], "", &["no FIRN_SERVE_PROT: did you mean FIRN_SERVE_PORT?"]),
        (&[("FIRN_SERVE_PORT", "x")], "", &["FIRN_SERVE_PORT = x is wrong", "0 to 65535"]),
        (&[], "[serve]\nprot = 1", &["firn.toml", "no `prot` of [serve]: did you mean `port` of [serve]?"]),
        (&[("FIRN_SERVE_COLOUR", "1")], "", &["no FIRN_SERVE_COLOUR; ", "FIRN_SERVE_PORT, FIRN_SERVE_BIND"]),
        (&[("FIRN_SERVE_MEMORY_BYTES", "1")], "", &["FIRN_SERVE_MEMORY_BYTES is wrong", "16 MiB to"]),
        (&[], "[serve]\nmemory_bytes = 1", &["firn.toml: `memory_bytes` of [serve] is wrong"]),
        (&[], "[serve]\nnetwork = \"pigeons\"", &["`pigeons` is none of auto, ring, epoll"]),
        (&[], "serve = 1", &["write [serve]"]),
        (&[], "[serve]\nthreads = 0", &["`threads` of [serve] = 0 is wrong", "at least 1"]),
        (&[("FIRN_SERVE_THREADS", "0")], "", &["FIRN_SERVE_THREADS = 0 is wrong", "at least 1"]),
        (&[], "background_nice = -20", &["`background_nice = -20` must be 0 to 19"]),
        (&[], "[server]\nport = 1", &["there is no table [server]; there are [tree], [hash] and [serve]"]),
        (&[], "memory_byte = 1", &["did you mean `memory_bytes`?"]),
    ];
    for (environment, file, words) in cases {
        let said = with(environment, file).unwrap_err().to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}
