//! Options that mean nothing without others, or that others leave no room for.

use firn_engine::Durability;

use super::options::Options;
use crate::ending::{Ending, Failure, Result};
use crate::service::WEIGHT;

/// Refuses what cannot be meant, before anything is done.
///
/// # Errors
/// What is said together, or without something, and what to say in its place.
pub(super) fn check(options: &Options, take_over: bool) -> Result<()> {
    let refuse = |what: String| Err(Failure::new(Ending::Usage, what));
    if options.worker.is_some() && options.control_plane.is_some() {
        return refuse(
            "jobs go to a worker or to a control plane: say one of --worker and --control-plane".to_owned(),
        );
    }
    if options.worker.is_some() && options.shared.is_some() {
        return refuse(
            "the worker of --worker reaches the directory alone, and tables lie in --shared: say --control-plane, whose workers reach both"
                .to_owned(),
        );
    }
    let of_shared = [
        (options.store_rates.is_some(), "--store-rates"),
        (options.shared_cache.is_some(), "--shared-cache"),
        (take_over, "--take-over"),
    ];
    let of_planes = [
        (options.control_plane_token_file.is_some(), "--control-plane-token-file"),
        (options.control_plane_ca.is_some(), "--control-plane-ca"),
        (options.control_plane_cert.is_some(), "--control-plane-cert"),
        (options.control_plane_key.is_some(), "--control-plane-key"),
        (options.zone.is_some(), "--zone"),
        (options.tenant.is_some(), "--tenant"),
        (options.weight.is_some_and(|weight| weight != WEIGHT), "--weight"),
    ];
    let lacking =
        |said: &[(bool, &'static str)]| said.iter().find(|(is_said, _)| *is_said).map(|(_, name)| *name);
    if let (None, Some(name)) = (&options.shared, lacking(&of_shared)) {
        return refuse(format!(
            "{name} is for shared storage, and none is used: say --shared, or leave it out (of the file and the environment, too)"
        ));
    }
    if let (None, Some(Durability::Shared)) = (&options.shared, options.durability) {
        return refuse(
            "--durability shared is for shared storage, and none is used: give --shared LOCATION, or --durability disk"
                .to_owned(),
        );
    }
    if let (None, Some(name)) = (&options.control_plane, lacking(&of_planes)) {
        return refuse(format!(
            "{name} is for control planes, and none is used: say --control-plane, or leave it out (of the file and the environment, too)"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(options: Options, take_over: bool) -> String {
        check(&options, take_over).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_of_no_use_is_refused_with_what_to_say() {
        let path = || Some(std::path::PathBuf::from("x"));
        let none = Options::default;
        assert!(check(&none(), false).is_ok());
        assert!(check(&Options::defaults(), false).is_ok());
        let of_shared = [Options { shared_cache: path(), ..none() }, none()];
        for (options, (take_over, name)) in
            of_shared.into_iter().zip([(false, "--shared-cache"), (true, "--take-over")])
        {
            let why = refusal(options.clone(), take_over);
            assert!(why.contains(name) && why.contains("say --shared"), "{why}");
            let shared = Options { shared: Some("s3://b/p".to_owned()), ..options };
            assert!(check(&shared, take_over).is_ok(), "{name}");
        }
        let durable = Options { durability: Some(Durability::Shared), ..none() };
        assert!(refusal(durable.clone(), false).contains("give --shared LOCATION"));
        assert!(check(&Options { shared: Some("s3://b/p".to_owned()), ..durable }, false).is_ok());
        let of_planes = [
            ("--control-plane-token-file", Options { control_plane_token_file: path(), ..none() }),
            ("--control-plane-ca", Options { control_plane_ca: path(), ..none() }),
            ("--control-plane-cert", Options { control_plane_cert: path(), ..none() }),
            ("--control-plane-key", Options { control_plane_key: path(), ..none() }),
            ("--zone", Options { zone: Some("z".to_owned()), ..none() }),
            ("--tenant", Options { tenant: Some("t".to_owned()), ..none() }),
            ("--weight", Options { weight: Some(2.0), ..none() }),
        ];
        for (name, options) in of_planes {
            let why = refusal(options.clone(), false);
            assert!(why.contains(name) && why.contains("say --control-plane"), "{why}");
            let planes = Options { control_plane: Some("http://localhost:1".to_owned()), ..options };
            assert!(check(&planes, false).is_ok(), "{name}");
        }
    }

    #[test]
    fn who_does_the_jobs_is_said_once_and_reaches_the_files() {
        let worker = Options { worker: Some("socket".into()), ..Options::default() };
        assert!(check(&worker, false).is_ok());
        let both = Options { control_plane: Some("http://localhost:1".to_owned()), ..worker.clone() };
        assert!(refusal(both, false).contains("one of --worker and --control-plane"));
        let shared = Options { shared: Some("s3://b/p".to_owned()), ..worker };
        assert!(refusal(shared, false).contains("--worker reaches the directory alone"));
    }
}
