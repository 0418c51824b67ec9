//! Enums that can be iterated.

/// Declares an enum together with `ALL`, the list of all its values in order.
macro_rules! listed {
    ($(#[$attribute:meta])* pub enum $name:ident {
        $($(#[$of_value:meta])* $value:ident,)*
    }) => {
        $(#[$attribute])*
        pub enum $name {
            $($(#[$of_value])* $value,)*
        }

        impl $name {
            pub const ALL: [$name; [$($name::$value),*].len()] = [$($name::$value),*];
        }
    };
}

pub(crate) use listed;
