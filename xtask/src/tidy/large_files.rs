//! Files that make every clone slower.

use super::Finding;
use crate::repository::Repository;

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where larger files are expected: measured results are kept raw.
const EXCEPTIONS: &[&str] = &["results/", "Cargo.lock", "peers/Cargo.lock"];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let large = repository.sizes().filter(|(_, bytes)| *bytes > FILE_BYTES_MAX);
    large
        .filter(|(path, _)| !EXCEPTIONS.iter().any(|exception| path.starts_with(exception)))
        .map(|(path, bytes)| {
            let message = format!("{bytes} bytes, the limit is {FILE_BYTES_MAX}: generate it, or shrink it");
            Finding::new(path, 1, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_found_unless_it_is_a_result() {
        let large = "x".repeat((1 << 20) + 1);
        let files =
            [("docs/picture.svg", large.as_str()), ("results/a/raw.json", &large), ("a.txt", &large[1..])];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["docs/picture.svg:1: 1048577 bytes, the limit is 1048576: generate it, or shrink it"]
        );
    }
}
