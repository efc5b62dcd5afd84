use firn::*;
fn main() -> firn::Result<()> {
    let d = std::env::temp_dir().join(format!("firn-scratch-{}", std::process::id()));
    let db = Db::open(&d)?;
    let ks = db.in_keyspace(db.keyspace("accounts")?);
    ks.put("a", "1")?;
    let _other = db.keyspace("journal")?;
    ks.put("b", "1")?;
    db.checkpoint(d.with_extension("c"))?;
    ks.put("c", "1")?;
    db.wait_idle()?;
    std::process::Command::new("ls").arg("-la").arg(&d).status().unwrap();
    if std::env::args().nth(1).is_some() {
        std::process::Command::new("cp").arg("-r").arg(&d).arg(d.with_extension("killed")).status().unwrap();
        let db = Db::open(d.with_extension("killed"))?;
        println!("after kill: {:?}", db.in_keyspace(db.keyspace("accounts")?).get("a"));
    }
    db.close()?;
    let db = Db::open(&d)?;
    println!("{:?}", db.in_keyspace(db.keyspace("accounts")?).get("a"));
    Ok(())
}
