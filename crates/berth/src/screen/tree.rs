//! A tree of objects.

use kit::explain::{Level, Node};

use super::{Screen, columns};

/// Draws a tree.
pub fn tree(screen: Screen, root: &Node) -> String {
    let mut out = String::new();
    branch(screen, &mut out, root, None, ["", ""]);
    out
}

/// So many names of objects that are alike are written out.
const NAMED: usize = 3;

/// A branch of so many objects is drawn even where all is well and other things are not.
const SMALL: usize = 3;

/// The same tree for people. Branches beside each other that are alike and as they should be are one line; and where anything
/// is not as it should be, so is every larger branch that is: then only problems are expanded.
pub fn folded(root: &Node) -> Node {
    fold(root, is_troubled(root))
}

fn fold(node: &Node, troubled: bool) -> Node {
    if troubled && is_fine(node) && size(node) > SMALL {
        return closed(node);
    }
    let mut children: Vec<Node> = Vec::new();
    let mut rest: Vec<&Node> = node.children.iter().collect();
    while let Some(first) = rest.first().copied() {
        let (group, others): (Vec<&Node>, Vec<&Node>) = match foldable(first) {
            true => rest.iter().copied().partition(|other| alike(first, other)),
            false => (vec![first], rest.iter().copied().skip(1).collect()),
        };
        children.push(if group.len() == 1 { fold(first, troubled) } else { one_for(first, &group) });
        rest = others;
    }
    Node { children, ..node.clone() }
}

/// What is a machine, or stands on something: of anything else the name is all there is.
fn foldable(node: &Node) -> bool {
    is_fine(node) && (node.object.kind.ends_with("Machine") || !node.children.is_empty())
}

fn is_fine(node: &Node) -> bool {
    node.level == Level::Ok && node.children.iter().all(is_fine)
}

/// Whether anything is not as it should be. What is not wanted is no trouble.
fn is_troubled(node: &Node) -> bool {
    !matches!(node.level, Level::Ok | Level::Aside) || node.children.iter().any(is_troubled)
}

fn size(node: &Node) -> usize {
    1 + node.children.iter().map(size).sum::<usize>()
}

/// Whether two nodes say the same: of the same kinds all the way down, and all as it should be.
fn alike(a: &Node, b: &Node) -> bool {
    a.note == b.note && same_shape(a, b)
}

fn same_shape(a: &Node, b: &Node) -> bool {
    let same = a.object.kind == b.object.kind && a.level == b.level && a.children.len() == b.children.len();
    same && a.children.iter().zip(&b.children).all(|(a, b)| same_shape(a, b))
}

/// One node for several that are alike.
fn one_for(first: &Node, group: &[&Node]) -> Node {
    let names: Vec<&str> = group.iter().map(|node| node.object.name.as_str()).collect();
    let name = match names.as_slice() {
        [first, .., last] if names.len() > NAMED => format!("{first} … {last}"),
        all => all.join(", "),
    };
    let count = group.len();
    let alike = match first.object.kind.as_str() {
        "Machine" => format!("{count} machines, all ready"),
        _ => format!("{count} alike, all fine"),
    };
    let said = if first.note.is_empty() { String::new() } else { format!(": {}", first.note) };
    let mut kinds = Vec::new();
    gather(first, &mut kinds);
    let below = if kinds.is_empty() { String::new() } else { format!("; each with {}", kinds.join(", ")) };
    let object = kit::explain::Object { name, ..first.object.clone() };
    Node::new(object, first.level, format!("{alike}{said}{below}"))
}

/// One node for a branch in which all is well.
fn closed(node: &Node) -> Node {
    let mut kinds = Vec::new();
    gather(node, &mut kinds);
    let said = if node.note.is_empty() { String::new() } else { format!("{}; ", node.note) };
    Node::new(node.object.clone(), node.level, format!("{said}all fine below: {}", kinds.join(", ")))
}

/// The kinds of everything below a node, in the order they are drawn, each once.
fn gather<'n>(node: &'n Node, kinds: &mut Vec<&'n str>) {
    for child in &node.children {
        if !kinds.contains(&child.object.kind.as_str()) {
            kinds.push(&child.object.kind);
        }
        gather(child, kinds);
    }
}

/// Draws a node after the first lead, and what hangs on it after the second.
fn branch(screen: Screen, out: &mut String, node: &Node, namespace: Option<&str>, [lead, below]: [&str; 2]) {
    let object = &node.object;
    let here = object.namespace.as_deref();
    // The namespace is said once, where it begins.
    let name = if here == namespace || here.is_none() { object.name.clone() } else { object.path() };
    let head = format!("{} {name}", object.kind);
    let mark = screen.mark(node.level);
    let bar = if node.children.is_empty() { "  " } else { "│ " };
    let indent = columns(lead) + 2 + columns(&head) + 2;
    let painted = format!("{lead}{mark} {} {}", object.kind, screen.heading(&name));
    let beside = screen.has_room(indent, &node.note) && screen.width.is_none_or(|width| indent * 2 <= width);
    if node.note.is_empty() {
        *out += &format!("{painted}\n");
    } else if beside {
        let rest = format!("{below}{bar}{}", " ".repeat(indent - columns(below) - columns(bar)));
        screen.paragraph(out, &format!("{painted}  "), &rest, indent, &node.note);
    } else {
        *out += &format!("{painted}\n");
        let rest = format!("{below}{bar}  ");
        screen.paragraph(out, &rest, &rest, columns(&rest), &node.note);
    }
    let namespace = here.or(namespace);
    let last = node.children.len().saturating_sub(1);
    for (number, child) in node.children.iter().enumerate() {
        let leads = if number == last { ["└─ ", "   "] } else { ["├─ ", "│  "] };
        let [first, rest] = leads.map(|lead| format!("{below}{lead}"));
        branch(screen, out, child, namespace, [&first, &rest]);
    }
}

#[cfg(test)]
mod tests {
    use api::key::ObjectKey;
    use kit::explain::Object;

    use super::*;

    fn node(kind: &str, name: &str, level: Level, children: Vec<Node>) -> Node {
        Node::new(Object::new(kind, &ObjectKey::namespaced("team-a", name)), level, "Running").with(children)
    }

    fn machine(name: &str, level: Level) -> Node {
        node("Machine", name, level, vec![node("HostClaim", name, level, Vec::new())])
    }

    fn drawn(root: &Node) -> String {
        tree(Screen { width: None, colour: false }, &folded(root))
    }

    #[test]
    fn branches_that_are_alike_are_one_line_wherever_they_stand() {
        let machines = ["a", "b", "c", "d"].map(|name| machine(name, Level::Ok));
        let mut group = node("MachineDeployment", "workers", Level::Ok, machines.into());
        insta::assert_snapshot!(drawn(&group));
        // One of them has trouble, so the others are not beside each other any more.
        group.children[1] = machine("b", Level::Problem);
        insta::assert_snapshot!(drawn(&group));
    }

    #[test]
    fn while_something_is_wrong_only_that_is_expanded() {
        let group = |name: &str, level: Level| {
            node(
                "MachineDeployment",
                name,
                level,
                vec![machine(&format!("{name}-1"), level), node("Condition", name, level, Vec::new())],
            )
        };
        let small = node("IPAddressClaim", "vip", Level::Ok, vec![node("IPAddress", "vip", Level::Ok, Vec::new())]);
        let root = |level: Level| {
            node("Cluster", "prod", Level::Ok, vec![small.clone(), group("good", Level::Ok), group("other", level)])
        };
        assert!(
            drawn(&root(Level::Ok)).contains("2 alike, all fine: Running; each with Machine, HostClaim, Condition")
        );
        insta::assert_snapshot!(drawn(&root(Level::Waiting)));
        // What is left alone is no trouble, and is drawn.
        let aside = drawn(&root(Level::Aside));
        assert!(aside.contains("- HostClaim other-1") && aside.contains("HostClaim good-1"), "{aside}");
    }

    #[test]
    fn what_is_only_a_name_keeps_it() {
        let secrets = ["a", "b"].map(|name| node("Secret", name, Level::Ok, Vec::new()));
        let root = node("HostClaim", "web", Level::Ok, secrets.into());
        assert_eq!(folded(&root), root);
    }
}
