//! Floats of 16 bits as those of 32: every one of them is exact there.

/// A number of the format binary16 of IEEE 754 (F16).
pub fn f16(bits: u16) -> f32 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (u32::from(bits >> 10 & 31), f32::from(bits & 1023));
    sign * match exponent {
        // Below 2⁻¹⁴ numbers are multiples of 2⁻²⁴.
        0 => fraction * power(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * power(exponent as i32 - 25),
    }
}

/// A number of the format bfloat16 (BF16): the upper half of one of 32 bits.
pub fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// 2 to a power between −126 and 127.
fn power(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}
