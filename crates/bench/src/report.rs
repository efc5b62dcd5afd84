//! What is told about the results: JSON, a table for the terminal, one HTML file.

mod result;
mod finding;
mod series;
mod summary;
mod ycsb_text;
mod json;
mod html;

pub use finding::{Finding, Verdict};
pub(crate) use html::html_with_findings;
pub use html::{Cells, Report, Spread, html, write_html};
pub use json::write_json;
pub(crate) use json::write_text;
pub(crate) use result::Holdings;
pub use result::{Context, PhaseResult};
pub use series::{DiskPoint, SeriesPoint};
pub use summary::{figure, summary_table, table_text};
pub use ycsb_text::{final_block, status_line};
