//! Reads the part of packetdrill's language that [`super::play`] plays.

use super::names;
use super::packet::{Opt, Packet};
use super::script::{Event, Expr, Problem, Script, What, When};
use core::str::FromStr;
use wifu_wire::names::hint;
use wifu_wire::{Ecn, Span};

/// What a place in a script gives, or what is wrong there.
type Read<T> = Result<T, Problem>;

/// A place in the text.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl FromStr for Script {
    type Err = Problem;

    fn from_str(text: &str) -> Read<Script> {
        let mut c = Cursor { text, at: 0 };
        let mut script = Script::default();
        while c.next_is("--") {
            c.option(&mut script)?;
        }
        while !c.is_over() {
            let event = c.event()?;
            script.events.push(event);
        }
        match script.events.first() {
            None => Err(Problem::new(0, "the script has no events")),
            Some(Event {
                when: When::At(Span::ZERO) | When::After(Span::ZERO),
                ..
            }) => Ok(script),
            Some(first) => Err(Problem::new(first.line, "the first event is at time 0")),
        }
    }
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Past blanks and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            let comment = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |n| n + 2)
            } else {
                return;
            };
            self.at += comment;
        }
    }

    fn line(&self) -> usize {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        before.iter().filter(|b| **b == b'\n').count() + 1
    }

    fn wrong<T>(&self, what: impl Into<String>) -> Read<T> {
        Err(Problem::new(self.line(), what))
    }

    /// What was expected instead of what is there.
    fn expected<T>(&self, what: &str) -> Read<T> {
        let rest = self.rest();
        let found: String = rest.chars().take_while(|c| *c != '\n').take(20).collect();
        match found.is_empty() {
            true => self.wrong(format!("expected {what}, but the script ends here")),
            false => self.wrong(format!("expected {what}, found `{}`", found.trim_end())),
        }
    }

    fn is_over(&mut self) -> bool {
        self.skip();
        self.rest().is_empty()
    }

    fn next_is(&mut self, text: &str) -> bool {
        self.skip();
        self.rest().starts_with(text)
    }

    /// Takes the text if it comes next.
    fn take(&mut self, text: &str) -> bool {
        let is = self.next_is(text);
        if is {
            self.at += text.len();
        }
        is
    }

    fn need(&mut self, text: &str) -> Read<()> {
        match self.take(text) {
            true => Ok(()),
            false => self.expected(&format!("`{text}`")),
        }
    }

    /// The longest run of characters that belong to it, from here on.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        self.skip();
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn word(&mut self) -> &'a str {
        self.run(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Takes this word, and no longer one that begins so.
    fn take_word(&mut self, word: &str) -> bool {
        let from = self.at;
        let is = self.word() == word;
        if !is {
            self.at = from;
        }
        is
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Read<T> {
        self.skip();
        let from = self.at;
        let sign = if self.take("-") { "-" } else { "" };
        let digits = self.run(|c| c.is_ascii_digit());
        match format!("{sign}{digits}").parse() {
            Ok(n) => Ok(n),
            Err(_) => {
                self.at = from;
                self.expected(what)
            }
        }
    }

    /// Text in quotation marks.
    fn quoted(&mut self) -> Read<&'a str> {
        self.need("\"")?;
        let rest = self.rest();
        let Some(end) = rest.find('"') else {
            return self.wrong("the text has no end: `\"` is missing");
        };
        self.at += end + 1;
        Ok(&rest[..end])
    }

    /// A line such as `--tolerance_usecs=500`.
    fn option(&mut self, script: &mut Script) -> Read<()> {
        let from = self.at;
        self.need("--")?;
        let name = self.word();
        match name {
            "so_flags" => {
                self.need("=")?;
                script.setup = Some(self.quoted()?.into());
            }
            "tolerance_usecs" => {
                self.need("=")?;
                script.tolerance = Span(self.number::<u64>("microseconds")? * 1_000);
            }
            "tcp_ts_tick_usecs" => {
                self.need("=")?;
                let tick = Span(self.number::<u64>("microseconds")? * 1_000);
                script.tick = Some(tick).filter(|t| *t != Span::ZERO);
            }
            _ => {
                self.at = from;
                return self.wrong(format!(
                    "--{name}: unknown here; known are --so_flags, --tolerance_usecs and \
                     --tcp_ts_tick_usecs"
                ));
            }
        }
        Ok(())
    }

    fn event(&mut self) -> Read<Event> {
        self.skip();
        let line = self.line();
        if self.next_is("`") {
            return self.wrong("commands are for kernels: this player has none to configure");
        }
        let (when, until) = self.when()?;
        let what = if self.take("<") {
            What::In(self.packet(true)?)
        } else if self.take(">") {
            What::Out(self.packet(false)?)
        } else if self.next_is("`") || self.next_is("%{") {
            return self.wrong("commands and code are for kernels: this player runs none");
        } else {
            self.call(until)?
        };
        let out = matches!(what, What::Out(_));
        let ranged = !matches!(when, When::At(_) | When::After(_));
        if ranged && !out {
            let what = "a range of times, or any time, is for packets that leave";
            return Err(Problem::new(line, what));
        }
        if until.is_some() && !matches!(what, What::Call { .. }) {
            return Err(Problem::new(line, "only a call has an end (`...`)"));
        }
        Ok(Event { line, when, what })
    }

    /// When it happens, and until when it lasts.
    fn when(&mut self) -> Read<(When, Option<Span>)> {
        if self.take("*") {
            return Ok((When::Any, None));
        }
        let after = self.take("+");
        let from = self.time()?;
        if self.take("...") {
            let until = self.time()?;
            let when = if after {
                When::After(from)
            } else {
                When::At(from)
            };
            return Ok((when, Some(until)));
        }
        if !self.take("~") {
            let when = if after {
                When::After(from)
            } else {
                When::At(from)
            };
            return Ok((when, None));
        }
        if after {
            self.need("+")?;
        }
        let to = self.time()?;
        if to < from {
            return self.wrong("the range of times ends before it begins");
        }
        let when = if after {
            When::AfterBetween(from, to)
        } else {
            When::Between(from, to)
        };
        Ok((when, None))
    }

    /// Seconds with at most six places, since packetdrill counts microseconds.
    fn time(&mut self) -> Read<Span> {
        let whole = self.run(|c| c.is_ascii_digit());
        let mut places = "";
        // Not the dots of `...`.
        if self.rest().starts_with('.') && !self.rest().starts_with("...") {
            self.at += 1;
            places = self.run(|c| c.is_ascii_digit());
        }
        if whole.is_empty() && places.is_empty() {
            return self.expected("a time in seconds");
        }
        if places.len() > 6 {
            return self.wrong("a time has at most six places: it counts microseconds");
        }
        let Ok(seconds) = (if whole.is_empty() { "0" } else { whole }).parse::<u32>() else {
            return self.wrong("a time of more than 136 years");
        };
        let micros: u64 = format!("{places:0<6}").parse().unwrap_or(0);
        Ok(Span::SECOND * u64::from(seconds) + Span(micros * 1_000))
    }

    fn packet(&mut self, inbound: bool) -> Read<Packet> {
        let ecn = self.ip_fields()?;
        let letters = self.run(|c| c.is_ascii_uppercase() || c == '.' || c == '-');
        let Some(flags) = Packet::flags(letters).filter(|_| !letters.is_empty()) else {
            return self.wrong(format!(
                "`{letters}`: flags are of F S R P U E W and . for ACK"
            ));
        };
        let seq = self.number("the number of the first octet")?;
        self.need(":")?;
        let end: u32 = self.number("the number after the last octet")?;
        self.need("(")?;
        let len: u32 = self.number("octets of payload")?;
        self.need(")")?;
        if end.wrapping_sub(seq) != len {
            return self.wrong(format!("{seq}:{end} are {} octets", end.wrapping_sub(seq)));
        }
        let ack = match self.take_word("ack") {
            true => Some(self.number("the number that is acknowledged")?),
            false => None,
        };
        if ack.is_some() != (flags & super::packet::ACK != 0) {
            return self.wrong("the dot among the flags and `ack` go together");
        }
        let window = match self.take_word("win") {
            true => Some(self.number("octets of window")?),
            false => None,
        };
        let options = self.options()?;
        if inbound && options.is_none() {
            return self.wrong("<...> is for packets that leave");
        }
        let (ack, window) = match inbound {
            true => (ack.unwrap_or(0), Some(window.unwrap_or(0))),
            false => (ack.unwrap_or(0), window),
        };
        Ok(Packet {
            ecn,
            flags,
            seq,
            len,
            ack,
            window,
            options,
        })
    }

    /// What the IP header carries, of which the ECN field is all that is compared.
    fn ip_fields(&mut self) -> Read<Option<Ecn>> {
        if !self.take("[") {
            return Ok(None);
        }
        let word = self.word();
        let Some((_, ecn)) = super::packet::FIELDS.iter().find(|f| f.0 == word) else {
            return self.wrong(format!(
                "`{word}`: of the IP header this player compares noecn, ect0, ect1 and ce"
            ));
        };
        self.need("]")?;
        Ok(Some(*ecn))
    }

    /// The options of a packet; `None` if they are not compared.
    fn options(&mut self) -> Read<Option<Vec<Opt>>> {
        let mut list = Vec::new();
        // The next event may be a packet that arrives, but begins with its time.
        if !self.take("<") {
            return Ok(Some(list));
        }
        if self.take("...") {
            self.need(">")?;
            return Ok(None);
        }
        loop {
            list.push(self.tcp_option()?);
            if self.take(">") {
                return Ok(Some(list));
            }
            self.need(",")?;
        }
    }

    fn tcp_option(&mut self) -> Read<Opt> {
        let from = self.at;
        Ok(match self.word() {
            "nop" => Opt::Nop,
            "eol" => Opt::Eol,
            "sackOK" => Opt::SackOk,
            "mss" => Opt::Mss(self.number("octets")?),
            "wscale" => Opt::Wscale(self.number("a shift")?),
            "TS" => {
                if !self.take_word("val") {
                    return self.expected("`val`");
                }
                let value = self.number("a timestamp")?;
                if !self.take_word("ecr") {
                    return self.expected("`ecr`");
                }
                Opt::Ts(value, self.number("a timestamp")?)
            }
            "sack" => {
                let mut ranges = Vec::new();
                while !self.next_is(",") && !self.next_is(">") {
                    let from = self.number("the first octet of a range")?;
                    self.need(":")?;
                    ranges.push((from, self.number("the octet after a range")?));
                }
                Opt::Sack(ranges)
            }
            _ => {
                self.at = from;
                return self.expected("an option (mss, wscale, sackOK, sack, TS, nop, eol)");
            }
        })
    }

    fn call(&mut self, until: Option<Span>) -> Read<What> {
        let name = self.word();
        if name.is_empty() {
            return self.expected("a packet (`<` or `>`) or a call");
        }
        self.need("(")?;
        let args = self.list(")")?;
        self.need("=")?;
        let result = self.sum()?;
        let mut errno = None;
        if result == -1 && self.rest().trim_start_matches([' ', '\t']).starts_with('E') {
            errno = Some(self.sum()?);
        }
        // What the error means, for the reader.
        if self.rest().trim_start_matches([' ', '\t']).starts_with('(') {
            self.need("(")?;
            let Some(end) = self.rest().find([')', '\n']) else {
                return self.expected("`)`");
            };
            self.at += end;
            self.need(")")?;
        }
        Ok(What::Call {
            name: name.into(),
            args,
            result,
            errno,
            until,
        })
    }

    /// Values until what closes the list.
    fn list(&mut self, close: &str) -> Read<Vec<Expr>> {
        let mut list = Vec::new();
        if self.take(close) {
            return Ok(list);
        }
        loop {
            list.push(self.value()?);
            if self.take(close) {
                return Ok(list);
            }
            self.need(",")?;
        }
    }

    fn value(&mut self) -> Read<Expr> {
        if self.take("...") {
            return Ok(Expr::Any);
        }
        if self.take("[") {
            return Ok(Expr::List(self.list("]")?));
        }
        if self.take("{") {
            return self.fields();
        }
        if self.next_is("\"") {
            return Ok(Expr::Text(self.quoted()?.into()));
        }
        Ok(Expr::Number(self.sum()?))
    }

    /// `name=value` or plain values, in braces.
    fn fields(&mut self) -> Read<Expr> {
        let mut fields = Vec::new();
        loop {
            let from = self.at;
            let mut name = self.word();
            // As in msg_iov(2)=[..].
            if self.take("(") {
                self.run(|c| c != ')');
                self.need(")")?;
            }
            if !self.take("=") {
                self.at = from;
                name = "";
            }
            fields.push((name.to_owned(), self.value()?));
            if self.take("}") {
                return Ok(Expr::Struct(fields));
            }
            self.need(",")?;
        }
    }

    /// A number, or words that stand for numbers, joined by `|`.
    fn sum(&mut self) -> Read<i64> {
        let mut sum = 0;
        loop {
            self.skip();
            let from = self.at;
            let first = self.rest().chars().next();
            sum |= if self.take("0x") {
                let digits = self.run(|c| c.is_ascii_hexdigit());
                match i64::from_str_radix(digits, 16) {
                    Ok(n) => n,
                    Err(_) => return self.expected("hexadecimal digits"),
                }
            } else if first.is_some_and(|c| c.is_ascii_digit() || c == '-') {
                self.number("a number")?
            } else {
                let word = self.word();
                match names::number(word) {
                    Some(n) => n,
                    None if word.is_empty() => return self.expected("a value"),
                    None => {
                        self.at = from;
                        let hint = hint(word, names::all());
                        return self.wrong(format!("`{word}` is unknown here{hint}"));
                    }
                }
            };
            if !self.take("|") {
                return Ok(sum);
            }
        }
    }
}
