//! What a registry makes of compositions that bring handlers along.

use wifu_engine::{Component, Cx, Descriptor, Library, Segment};
use wifu_node::{Registry, Substrate};

const FILE: &str = r#"
[protocol.mine]
extends = "tcp-newreno"
number = 240

[handlers.mine]
chain = [{ use = "tpa-shim", eta = 3 }]
"#;

fn registry(text: &str) -> Registry {
    let library = wifu_parts::library().merge(Library::parse(text).unwrap());
    Registry::new(wifu_parts::registry(), library)
}

fn id(text: &str) -> u32 {
    registry(text).resolve("mine").unwrap().ends.id
}

#[test]
fn what_hops_do_is_part_of_the_identity_of_a_composition() {
    let ends = FILE.split("[handlers").next().unwrap();
    let mut ids = vec![
        id(ends),
        id(FILE),
        id(&FILE.replace("eta = 3", "eta = 4")),
        id(&FILE.replace("240", "241")),
    ];
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert_eq!(id(FILE), id(FILE));
    // Ends alone keep theirs, under whatever number.
    assert_eq!(id(ends), id(&ends.replace("240", "241")));
    let plain = registry(FILE).resolve("tcp-newreno").unwrap().ends.id;
    assert_eq!(plain, wifu_parts::blueprint("tcp-newreno").unwrap().id);
}

static LISTENER: Descriptor = Descriptor {
    name: "listener",
    hooks: &["overheard"],
    build: |_| Ok(Box::new(Listener)),
    ..Descriptor::EMPTY
};

struct Listener;

impl Component for Listener {
    fn on_overheard(&mut self, _: &Segment<'_>, _: &mut Cx<'_>) {}
}

#[test]
fn a_part_that_must_overhear_does_not_run_where_nothing_is_overheard() {
    let text = "[protocol.mine]\nextends = \"tcp-newreno\"\nwatch.add = [\"listener\"]\n";
    let registry = registry(text).with_parts(&[&LISTENER]);
    assert!(registry.resolve_on("mine", Substrate::Sim).is_ok());
    for on in [Substrate::Mock, Substrate::Emu, Substrate::Live] {
        let said = registry.resolve_on("mine", on).unwrap_err().to_string();
        assert!(
            said.starts_with("protocol.mine: listener hears frames for other stations"),
            "{said}"
        );
    }
}
