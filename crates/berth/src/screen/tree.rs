//! A tree of objects.

use kit::explain::Node;

use super::{Screen, columns};

/// Draws a tree.
pub fn tree(screen: Screen, root: &Node) -> String {
    let mut out = String::new();
    branch(screen, &mut out, root, None, ["", ""]);
    out
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
