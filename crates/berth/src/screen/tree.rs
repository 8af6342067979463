//! A tree of objects.

use kit::explain::{Level, Node};

use super::{Screen, columns};

/// Draws a tree.
pub fn tree(screen: Screen, root: &Node) -> String {
    let mut out = String::new();
    branch(screen, &mut out, root, None, ["", ""]);
    out
}

/// So many names of machines that are alike are written out.
const NAMED: usize = 3;

/// The same tree for people: Machines beside each other that are alike and as they should be are one line.
pub fn folded(node: &Node) -> Node {
    let mut children: Vec<Node> = Vec::new();
    let mut rest = node.children.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let like = |other: &&Node| alike(first, other);
        let equal = if foldable(first) { after.iter().take_while(like).count() } else { 0 };
        let (group, beyond) = rest.split_at(equal + 1);
        children.push(if equal == 0 { folded(first) } else { one_for(first, group) });
        rest = beyond;
    }
    Node { children, ..node.clone() }
}

fn foldable(node: &Node) -> bool {
    node.object.kind == "Machine" && !node.children.is_empty() && is_fine(node)
}

fn is_fine(node: &Node) -> bool {
    node.level == Level::Ok && node.children.iter().all(is_fine)
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
fn one_for(first: &Node, group: &[Node]) -> Node {
    let names: Vec<&str> = group.iter().map(|node| node.object.name.as_str()).collect();
    let name = match names.as_slice() {
        [first, .., last] if names.len() > NAMED => format!("{first} … {last}"),
        all => all.join(", "),
    };
    let mut kinds = Vec::new();
    gather(first, &mut kinds);
    let note = format!("{} alike: {}; each with {}", group.len(), first.note, kinds.join(", "));
    let object = kit::explain::Object { name, ..first.object.clone() };
    Node::new(object, first.level, note)
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
