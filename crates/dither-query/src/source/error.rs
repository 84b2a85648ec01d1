//! Why a table could not be opened or read.

use std::io;
use std::path::PathBuf;

use datafusion::error::DataFusionError;
use dither_core::{Audience, Explain};

use super::relation_of;

/// Why a table could not be opened: its file, header or schema, never its rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A URL, or a file of an unknown kind.
    #[error("{path} is not a local .csv, .tsv or .parquet file")]
    Kind {
        /// The path as the policy writes it.
        path: PathBuf,
    },
    /// A folder, a pipe or a device.
    #[error("{path} is not a regular file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be opened, or its header or schema cannot be read.
    #[error("{path} {}", why(&**source))]
    Open {
        /// The path.
        path: PathBuf,
        /// What the system or the file format said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The text file has no header line, or one that is too long to be one.
    #[error("{path} has no usable header line")]
    NoHeader {
        /// The path.
        path: PathBuf,
    },
    /// The text file is in an encoding in which one row decides how the rows behind it are read.
    #[error("{path} is in {encoding}, in which one broken row changes how the rows of others are read")]
    Encoding {
        /// The path.
        path: PathBuf,
        /// The name of the encoding.
        encoding: &'static str,
    },
    /// A declared column that the file does not have.
    #[error("the column `{column}` is not in {path}")]
    MissingColumn {
        /// The name of the column in the file.
        column: String,
        /// The column that was probably meant.
        nearest: Option<String>,
        /// The path.
        path: PathBuf,
    },
    /// A declared column that the file has several times.
    #[error("the column `{column}` is in {path} more than once")]
    RepeatedColumn {
        /// The name of the column in the file.
        column: String,
        /// The path.
        path: PathBuf,
    },
    /// A column whose type in the file cannot be read as the declared one.
    #[error("the column `{column}` is declared as {declared}, but {path} has it as {found}")]
    ColumnType {
        /// The name of the column in the file.
        column: String,
        /// The declared type.
        declared: &'static str,
        /// The type in the file.
        found: String,
        /// The path.
        path: PathBuf,
    },
    /// A folder whose files have a column with different types.
    #[error("{path} has the column `{column}` as {found}, other files of the folder have it as {first}")]
    FilesDiffer {
        /// The name of the column in the files.
        column: String,
        /// The type in this file.
        found: String,
        /// The type in the first file.
        first: String,
        /// The path of this file.
        path: PathBuf,
    },
    /// A table that lies in a database, while no server was named.
    #[error("{source_name} lies in a database, and no server is named")]
    Elsewhere {
        /// The source as the policy writes it.
        source_name: PathBuf,
    },
    /// A table that lies in a file, while a server was named.
    #[error("{path} is a file, which the server cannot read")]
    NotElsewhere {
        /// The path as the policy writes it.
        path: PathBuf,
    },
    /// A table that the executors of a cluster cannot read.
    #[error("{path} cannot be read by a cluster")]
    NotOnCluster {
        /// The path as the policy writes it.
        path: PathBuf,
    },
    /// The server cannot be reached, does not let us in, or is none that can be used.
    #[error("the server cannot be used: {problem}")]
    Server {
        /// What is wrong, without anything that the server said.
        problem: String,
        /// What to change.
        hint: String,
    },
    /// A relation that the server does not have, or that may not be read.
    #[error("{relation} cannot be read: {problem}")]
    Relation {
        /// The relation.
        relation: String,
        /// What is wrong.
        problem: &'static str,
        /// What to change.
        hint: &'static str,
    },
    /// The query engine refused the table.
    #[error("the table cannot be planned")]
    Engine {
        /// What the engine said.
        #[from]
        source: DataFusionError,
    },
}

/// Why a file cannot be opened, as the rest of a sentence that begins with its name.
fn why(source: &(dyn std::error::Error + 'static)) -> &'static str {
    match source.downcast_ref::<io::Error>() {
        Some(error) => unreadable(error.kind()),
        None => "cannot be opened: it is damaged, or of another kind than its name says",
    }
}

/// The same, of what the system says.
pub(crate) fn unreadable(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "is not there",
        io::ErrorKind::PermissionDenied => "may not be read by this user",
        io::ErrorKind::IsADirectory => "is a folder",
        io::ErrorKind::InvalidData => "is not UTF-8 text",
        io::ErrorKind::FileTooLarge => "is too large",
        _ => "cannot be opened",
    }
}

impl Explain for SourceError {
    fn code(&self) -> &'static str {
        match self {
            Self::Kind { .. } => "source-kind",
            Self::NotAFile { .. } => "source-not-a-file",
            Self::Open { .. } => "source-unreadable",
            Self::NoHeader { .. } => "source-header",
            Self::Encoding { .. } => "source-encoding",
            Self::MissingColumn { .. } => "source-missing-column",
            Self::RepeatedColumn { .. } => "source-repeated-column",
            Self::ColumnType { .. } => "source-column-type",
            Self::FilesDiffer { .. } => "source-files-differ",
            Self::Elsewhere { .. } => "source-elsewhere",
            Self::NotElsewhere { .. } => "source-not-elsewhere",
            Self::NotOnCluster { .. } => "source-not-on-cluster",
            Self::Server { .. } => "source-server",
            Self::Relation { .. } => "source-relation",
            Self::Engine { .. } => "source-engine",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Kind { .. } | Self::NotAFile { .. } => {
                Some("set `source` to a file that ends in .csv, .tsv (also .gz, .zst) or .parquet".into())
            }
            Self::Open { .. } => Some("check that the file exists, may be read, and is complete".into()),
            Self::NoHeader { .. } => {
                Some("the first line must name the columns; check `encoding` and `delimiter`".into())
            }
            Self::Encoding { encoding, .. } => Some(crate::policy::convert_first(encoding)),
            Self::MissingColumn { nearest: Some(nearest), .. } => Some(format!("set `name_in_source` to `{nearest}`?")),
            Self::MissingColumn { path, .. } if relation_of(path).is_some() => {
                Some("remove the column or set its `name_in_source`".into())
            }
            Self::MissingColumn { .. } => {
                Some("remove the column or set its `name_in_source`; check `encoding` and `delimiter`".into())
            }
            Self::RepeatedColumn { .. } => Some("give the columns of the file different names".into()),
            Self::ColumnType { .. } => Some("change `type` to one that the column can be read as".into()),
            Self::FilesDiffer { .. } => Some("write all files of the folder with one schema".into()),
            Self::Elsewhere { .. } => Some("name it: --engine postgres://user@host/database".into()),
            Self::NotElsewhere { .. } => {
                Some("leave --engine out, or set `source` to a relation: \"postgres:schema.table\"".into())
            }
            Self::NotOnCluster { .. } => Some(
                "leave --engine out, or convert it to Parquet at a path that all executors see: \"folder/*.parquet\""
                    .into(),
            ),
            Self::Server { hint, .. } => Some(hint.clone()),
            Self::Relation { hint, .. } => Some((*hint).into()),
            Self::Engine { .. } => None,
        }
    }

    /// Files belong to the steward; the analyst sees none of this.
    fn audience(&self) -> Audience {
        Audience::Operator
    }
}

/// A file broke off or failed while its rows were read. The text is the same whatever happened.
#[derive(Debug, thiserror::Error)]
#[error("the source could not be read to its end")]
pub struct ReadError {
    /// What happened, for the operator.
    #[source]
    pub source: std::io::Error,
}

impl From<ReadError> for DataFusionError {
    fn from(error: ReadError) -> Self {
        Self::External(Box::new(error))
    }
}
