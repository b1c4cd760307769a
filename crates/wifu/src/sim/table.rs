//! Columns for people.

/// Text in columns that are as wide as their widest cell.
pub struct Table {
    /// Aligned to the right.
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Titles begin with `<` or `>`: which side the column is aligned to.
    pub fn new(titles: &[&str]) -> Table {
        let right = titles.iter().map(|t| t.starts_with('>')).collect();
        let first = titles.iter().map(|t| t[1..].to_string()).collect();
        Table {
            right,
            rows: vec![first],
        }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Only titles so far.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// All of it; columns without any content are left out.
    pub fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.right.len())
            .map(|c| {
                let cell = |r: &Vec<String>| r.get(c).map_or(0, |s| s.chars().count());
                let used = self.rows.iter().skip(1).map(cell).max().unwrap_or(0);
                if used == 0 {
                    0
                } else {
                    used.max(cell(&self.rows[0]))
                }
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate().filter(|(c, _)| widths[*c] > 0) {
                let width = widths[c];
                line += &if self.right[c] {
                    format!("{cell:>width$}  ")
                } else {
                    format!("{cell:<width$}  ")
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// So many of something.
pub(crate) fn number_of(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let mut table = Table::new(&["<link", ">n", "<nothing", "<why"]);
        table.row(["a > b".into(), "7".into(), String::new(), "noise".into()]);
        table.row(["a".into(), "1000".into(), String::new(), String::new()]);
        let expected = "link      n  why\na > b     7  noise\na      1000\n";
        assert_eq!(table.text(), expected);
    }
}
