use super::*;

#[test]
fn names_are_frozen_and_parse_back() {
    let names = [
        (FileName::Lock, "LOCK"),
        (FileName::Combiner, "COMBINER"),
        (FileName::Home, "home"),
        (FileName::ManifestEdit(1), "manifest-0000000000000001"),
        (FileName::ManifestEdit(u64::MAX), "manifest-ffffffffffffffff"),
        (FileName::LogSegment(Position(0)), "0000000000000000.log"),
        (FileName::LogSegment(Position(4 << 20)), "0000000000400000.log"),
        (FileName::Table { stem: "flush-7".into(), index: 0 }, "flush-7-000000.table"),
        (FileName::Table { stem: "t".into(), index: u32::MAX }, "t-4294967295.table"),
        (FileName::Tables { stem: "flush-7".into(), index: 0 }, "flush-7-000000.tables"),
        (FileName::BlobSegment(SegmentNumber(0x2a)), "0000002a.blobs"),
        (FileName::BlobSegment(SegmentNumber(u32::MAX)), "ffffffff.blobs"),
        (FileName::CollectedBlobs { stem: "gc-7".into(), index: 3 }, "gc-7-000003.blobs"),
        (FileName::LogObject { generation: 1, number: 0xab }, "0000000000000001-00000000000000ab.group"),
        (FileName::HybridSegment(1 << 23), "0000000000800000.hybrid"),
        (FileName::Redo { generation: 2, index: 3 }, "0000000000000002-0000000000000003.redo"),
        (FileName::Value(0xab), "00000000000000ab.value"),
        (
            FileName::Extent(Extent { log: LogKind::Hybrid, from: 1 << 23, to: 1 << 24, generation: 7 }),
            "0000000000800000-0000000001000000-0000000000000007.hybrid",
        ),
        (
            FileName::Extent(Extent { log: LogKind::Cold, from: 1 << 23, to: 1 << 24, generation: 7 }),
            "0000000000800000-0000000001000000-0000000000000007.cold",
        ),
    ];
    for (parsed, name) in &names {
        assert_eq!(parsed.to_string(), *name);
        assert_eq!(parse(name).as_ref(), Some(parsed), "{name}");
    }
    assert!(names.is_sorted(), "old to new");
    assert_eq!(table("flush-7", 12), "flush-7-000012.table");
    assert!(table(&"s".repeat(STEM_BYTES_MAX), u32::MAX).len() <= NAME_BYTES_MAX);
}

#[test]
fn names_of_earlier_builds_are_known_and_no_names_of_this_one() {
    for name in ["STAGE", "0000002a.values", "gc-7-000003.values"] {
        assert!(is_of_earlier_build(name) && parse(name).is_none(), "{name}");
    }
    for name in
        ["stage", "STAGE.txt", ".values", "2a.values", "my.values", "a/b-000003.values", "0000002a.blobs"]
    {
        assert!(!is_of_earlier_build(name), "{name}");
    }
}

#[test]
fn other_names_are_not_ours() {
    for name in [
        "",
        "lock",
        "combiner",
        "LOCK2",
        "manifest-1",
        "manifest-000000000000000A",
        "manifest-+00000000000001f",
        "manifest-00000000000000001",
        "400000.log",
        "000000000040000g.log",
        ".log",
        "a.table",
        "-000001.table",
        "a-1.table",
        "a-0000001.table",
        "a-+00001.table",
        "a-4294967296.table",
        "a-1.tables",
        "a-000001.tables@0+1",
        "../a-000001.table",
        "a/b-000001.table",
        ".hidden-000001.table",
        "é-000001.table",
        "2a.blobs",
        "0000002A.blobs",
        "000000002a.blobs",
        "a-1.blobs",
        ".blobs",
        "1-00000000000000ab.group",
        "0000000000000001-00000000000000AB.group",
        "0000000000000001.group",
        "0000000000800000-0000000001000000.hybrid",
        "0000000000800000-0000000001000000-000000000000000A.hybrid",
        "0000000000800000-0000000001000000-000000000000000a-.cold",
    ] {
        assert_eq!(parse(name), None, "{name}");
    }
    assert!(parse(&format!("{}-000001.table", "s".repeat(STEM_BYTES_MAX + 1))).is_none());
}

#[test]
fn parts_parse_back_and_are_no_files() {
    let name = "flush-7-000000.tables@4096+300";
    let part_of = part(name).unwrap();
    assert_eq!((part_of.file, part_of.offset, part_of.bytes), ("flush-7-000000.tables", 4096, 300));
    assert_eq!((part_of.to_string().as_str(), part_of.end()), (name, 4396));
    assert_eq!((file_of(name), file_of("a-000001.table")), ("flush-7-000000.tables", "a-000001.table"));
    assert!(is_table_name(name) && is_table_name("a-000001.table"));
    assert!(!is_valid(name) && parse(name).is_none());
    for other in [
        "a-000000.tables",
        "a-000000.tables@0",
        "a-000000.tables@0+0",
        "a-000000.tables@+1",
        "a-000000.tables@00+1",
        "a-000000.tables@0+01",
        "a-000000.tables@0++1",
        "a-000000.tables@-1+1",
        "a-000000.tables@18446744073709551615+1",
        "../a-000000.tables@0+1",
        "a-000000.tables@0+1@0+1",
        "@0+1",
    ] {
        assert_eq!(part(other), None, "{other}");
    }
}

#[test]
#[should_panic(expected = "a stem has")]
fn a_stem_may_not_leave_the_directory() {
    table("../a", 0);
}
