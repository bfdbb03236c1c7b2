//! Statements as trees: a node has a role, and a shrinker replaces it only by a node of that role.

use super::types::{SqlType, Value};
use std::borrow::Cow;

/// The role of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// An expression of a type.
    Expression(SqlType),
    /// A query with columns of these types.
    Query(Vec<SqlType>),
    /// An item of FROM.
    Source,
    /// A clause that can be absent.
    Optional,
    /// A list, of which any element but the last one can be absent.
    List,
    /// A part that stays as it is: without it the result would be undefined.
    Fixed,
}

/// The content of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text in which each `#` stands for the next child.
    Template(Cow<'static, str>, Vec<Node>),
    /// Children between separators.
    Separated(&'static str, Vec<Node>),
    /// A constant.
    Value(Value),
}

/// A part of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The role.
    pub role: Role,
    /// The content.
    pub content: Content,
}

impl Node {
    /// Creates a node from a text with a `#` for each child.
    pub fn new(role: Role, template: &'static str, children: Vec<Node>) -> Node {
        debug_assert_eq!(template.matches('#').count(), children.len(), "{template}");
        Node { role, content: Content::Template(template.into(), children) }
    }

    /// Creates an expression.
    pub fn expression(of: SqlType, template: &'static str, children: Vec<Node>) -> Node {
        Node::new(Role::Expression(of), template, children)
    }

    /// Creates a node without children.
    pub fn leaf(role: Role, text: impl Into<String>) -> Node {
        Node { role, content: Content::Template(Cow::Owned(text.into()), Vec::new()) }
    }

    /// Creates a part that stays as it is.
    pub fn word(text: impl Into<String>) -> Node {
        Node::leaf(Role::Fixed, text)
    }

    /// Creates an absent clause.
    pub fn absent() -> Node {
        Node::word("")
    }

    /// Creates a list with commas.
    pub fn list(children: Vec<Node>) -> Node {
        Node { role: Role::List, content: Content::Separated(", ", children) }
    }

    /// Creates a list with commas whose elements stay.
    pub fn fixed_list(children: Vec<Node>) -> Node {
        Node { role: Role::Fixed, content: Content::Separated(", ", children) }
    }

    /// Creates a constant.
    pub fn value(value: Value) -> Node {
        Node { role: Role::Expression(value.of), content: Content::Value(value) }
    }

    /// Returns the children.
    pub fn children(&self) -> &[Node] {
        match &self.content {
            Content::Template(_, children) | Content::Separated(_, children) => children,
            Content::Value(_) => &[],
        }
    }

    /// Returns the children, to be replaced.
    pub fn children_mut(&mut self) -> &mut [Node] {
        match &mut self.content {
            Content::Template(_, children) | Content::Separated(_, children) => children,
            Content::Value(_) => &mut [],
        }
    }

    /// Returns the statement with literals.
    pub fn sql(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, &mut None);
        text
    }

    /// Returns the statement with parameters, and their values.
    pub fn sql_with_parameters(&self) -> (String, Vec<Option<String>>) {
        let (mut text, mut values) = (String::new(), Some(Vec::new()));
        self.write(&mut text, &mut values);
        (text, values.unwrap_or_default())
    }

    /// Returns the templates of this node and all below it, which tell statements of one form from
    /// others.
    pub fn forms(&self, found: &mut Vec<String>) {
        if let Content::Template(template, children) = &self.content
            && !children.is_empty()
        {
            found.push(template.to_string());
        }
        for child in self.children() {
            child.forms(found);
        }
    }

    fn write(&self, text: &mut String, values: &mut Option<Vec<Option<String>>>) {
        match &self.content {
            Content::Template(template, children) if children.is_empty() => *text += template,
            Content::Template(template, children) => {
                let mut children = children.iter();
                for (at, piece) in template.split('#').enumerate() {
                    if at > 0
                        && let Some(child) = children.next()
                    {
                        child.write(text, values);
                    }
                    *text += piece;
                }
            }
            Content::Separated(separator, children) => {
                for (at, child) in children.iter().enumerate() {
                    if at > 0 {
                        *text += separator;
                    }
                    child.write(text, values);
                }
            }
            Content::Value(value) => match values {
                None => *text += &value.literal(),
                Some(values) => {
                    values.push(value.text.clone());
                    *text += &value.parameter(values.len());
                }
            },
        }
    }
}
