//! Enums that are gone through from the first value to the last.

/// Declares an enum together with `ALL`, its values in order: none can be left out.
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
