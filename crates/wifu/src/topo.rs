//! `--topo FILE.toml`, where words could be.

use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use wifu_radio::words::SHAPES;
use wifu_wire::names;

/// The text of the file that `--topo` names; `None` if it is words.
///
/// # Errors
/// There is no such file, with the one of its folder that may be meant, or it cannot be read.
pub fn file(topo: &str) -> anyhow::Result<Option<String>> {
    let path = Path::new(topo);
    if topo.ends_with(".toml") || path.is_file() {
        let text = std::fs::read_to_string(path).map_err(|e| match beside(path) {
            Some(near) if !path.exists() => {
                anyhow!("there is no such file; {}", names::asked(&near))
            }
            _ => e.into(),
        });
        return text
            .map(Some)
            .with_context(|| format!("--topo: topology file {topo}"));
    }
    let shape = topo.split(',').next().unwrap_or_default().trim();
    let shaped = names::nearest(shape, SHAPES).is_some();
    match beside(path).filter(|_| !shaped) {
        Some(near) => bail!(
            "--topo {topo}: no shape and no file is called so; {} Shapes are {}",
            names::asked(&near),
            SHAPES.join(", ")
        ),
        None => Ok(None),
    }
}

/// What stands alone that `--topo` should say: a topology, or what stands behind the shape that
/// `topo` names, of which all words that stand `alone` may be some.
///
/// # Errors
/// Such a word, with what to write.
pub fn misplaced(text: &str, topo: Option<&str>, alone: &[String]) -> anyhow::Result<()> {
    let shape = |words: &str| {
        let shape = words.split([',', '=']).next().unwrap_or_default();
        SHAPES.contains(&shape)
    };
    ensure!(!shape(text), "a topology is given by --topo {text}");
    let number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains('=');
    if let Some(topo) = topo.filter(|topo| number(text) && shape(topo)) {
        let alone = alone.iter().map(String::as_str).filter(|word| number(word));
        let all = [topo].into_iter().chain(alone);
        let all: Vec<&str> = all.map(|word| word.trim_end_matches(',')).collect();
        let all = all.join(",");
        bail!("\"{text}\": no blank stands in a topology: write --topo {all}");
    }
    Ok(())
}

/// The TOML file of the same folder whose name is nearest.
pub fn beside(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
    let all = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let names = all.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let mut stems: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(".toml")?.to_string()))
        .collect();
    stems.sort_unstable();
    // What all files of the kind end with says nothing.
    let stem = path.file_stem()?.to_str()?;
    let near = names::nearest(stem, stems.iter().map(String::as_str))?;
    let near = format!("{near}.toml");
    Some(path.with_file_name(near).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_topology_is_told_where() {
        let said = |text: &str, topo| {
            let alone = [text, "radio.rate=6M", "5,"].map(String::from);
            misplaced(text, topo, &alone).map_err(|e| e.to_string())
        };
        for text in ["linear,4", "grid,3,3,gap=5", "minimal"] {
            let wanted = format!("a topology is given by --topo {text}");
            assert_eq!(said(text, Some("linear,3")), Err(wanted), "{text}");
        }
        for topo in ["grid", "grid,"] {
            let why = said("4", Some(topo)).unwrap_err();
            assert!(why.ends_with("write --topo grid,4,5"), "{why}");
        }
        for (text, topo) in [
            ("4", None),
            ("radio.rate=6M", Some("linear")),
            ("4", Some("a.toml")),
        ] {
            assert_eq!(said(text, topo), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_file_is_told_from_words_and_the_nearest_is_named() {
        let folder = std::env::temp_dir().join(format!("wifu-topo-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let of = |name: &str| folder.join(name).display().to_string();
        std::fs::write(of("mesh.toml"), "set = \"TB-A\"").unwrap();
        std::fs::write(of("notes.txt"), "").unwrap();
        let read = |topo: &str| file(topo).map_err(|e| format!("{e:#}"));
        assert_eq!(read(&of("mesh.toml")), Ok(Some("set = \"TB-A\"".into())));
        assert_eq!(read("linear,3"), Ok(None));
        assert_eq!(read("linaer,3"), Ok(None), "the words say what is wrong");
        let meant = format!("did you mean `{}`?", of("mesh.toml"));
        for near in ["mehs.toml", "mesh", "mesh.tml"] {
            let told = read(&of(near)).unwrap_err();
            assert!(told.contains(&of(near)) && told.contains(&meant), "{told}");
        }
        let none = read(&of("hosts.toml")).unwrap_err();
        assert!(
            none.ends_with("No such file or directory (os error 2)"),
            "{none}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
