//! Weights of fewer bits: floats of 16, integers of 8.

use std::collections::HashMap;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};

use super::cases::{Stream, batch, descriptions, network};
use crate::model::Model;
use crate::nn::weights::numbers;
use crate::nn::{Description, Network, half, int8, quantize};

type Tensor = (String, Dtype, Vec<usize>, Vec<u8>);

fn file(tensors: &[Tensor]) -> Vec<u8> {
    let view = |dtype: &Dtype, shape: &[usize], bytes| TensorView::new(*dtype, shape.to_vec(), bytes).unwrap();
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| (name, view(dtype, shape, bytes)));
    safetensors::serialize(views, None).unwrap()
}

/// The tensors of a file, to change them.
fn tensors(file: &[u8]) -> Vec<Tensor> {
    let all = SafeTensors::deserialize(file).unwrap();
    let owned = |(name, tensor): (&str, TensorView<'_>)| {
        (name.to_owned(), tensor.dtype(), tensor.shape().to_vec(), tensor.data().to_vec())
    };
    all.iter().map(owned).collect()
}

#[test]
fn floats_of_16_bits_are_what_their_bits_say() {
    // IEEE 754-2008, section 3.4: the ends of each range, and its first and last numbers.
    for (bits, number) in [
        (0x0000, 0.0),
        (0x0001, 5.960_464_5e-8),
        (0x03ff, 6.097_555e-5),
        (0x0400, 6.103_515_6e-5),
        (0x3555, 0.333_251_95),
        (0x3bff, 0.999_511_7),
        (0x3c00, 1.0),
        (0x3c01, 1.000_976_6),
        (0xc000, -2.0),
        (0x7bff, 65504.0),
        (0x7c00, f32::INFINITY),
        (0xfc00, f32::NEG_INFINITY),
    ] {
        assert_eq!(half::f16(bits).to_bits(), f32::to_bits(number), "{bits:#06x}");
    }
    for (bits, number) in [
        (0x0000, 0.0),
        (0x0001, 9.183_55e-41),
        (0x0080, f32::MIN_POSITIVE),
        (0x3eab, 0.333_984_38),
        (0x3f80, 1.0),
        (0x4049, 3.140_625),
        (0xc000, -2.0),
        (0x7f7f, 3.389_531_4e38),
        (0x7f80, f32::INFINITY),
    ] {
        assert_eq!(half::bf16(bits).to_bits(), f32::to_bits(number), "{bits:#06x}");
    }
    assert!(half::f16(0x8000).is_sign_negative() && half::bf16(0x8000).is_sign_negative());
    assert!([0x7c01, 0x7e00, 0xffff].map(half::f16).iter().all(|number| number.is_nan()));
    assert!([0x7f81, 0x7fc0, 0xffff].map(half::bf16).iter().all(|number| number.is_nan()));
    // All 65,536 of them: numpy 2.4.6 and the format `e` of Python's `struct` give this, with 0 for what is no number.
    let mut hasher = Sha256::new();
    let number = |bits| Some(half::f16(bits)).filter(|number| !number.is_nan()).unwrap_or(0.0);
    (0..=u16::MAX).for_each(|bits| hasher.update(number(bits).to_le_bytes()));
    let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found, "faa6d965574036872b0d39a42d1f8bee361d5be92b1e718155a69556a5abacdd");
}

#[test]
fn files_of_16_bits_are_taken() {
    // Weights that 16 bits hold come back as they were, in all layers.
    let table: HashMap<u32, u16> = (0..=u16::MAX).map(|bits| (half::f16(bits).to_bits(), bits)).collect();
    for (name, description) in descriptions() {
        let mut one = network(&description, 3);
        let coarse = |x: &mut f32| *x = (*x * 64.0).round() / 64.0 + 0.0;
        one.parameters.trainable.iter_mut().chain(&mut one.parameters.frozen).for_each(coarse);
        let whole = tensors(&one.export().unwrap());
        for dtype in [Dtype::F16, Dtype::BF16] {
            let bits = |word: &[u8; 4]| match (dtype, f32::from_le_bytes(*word)) {
                (Dtype::BF16, number) => ((number.to_bits() >> 16) as u16).to_le_bytes(),
                (_, number) => table[&number.to_bits()].to_le_bytes(),
            };
            let narrow = |(name, _, shape, bytes): &Tensor| {
                (name.clone(), dtype, shape.clone(), bytes.as_chunks::<4>().0.iter().flat_map(bits).collect())
            };
            let mut other = Network::new(&description, 4).unwrap();
            let missing = other.import(&file(&whole.iter().map(narrow).collect::<Vec<_>>())).unwrap();
            assert_eq!((missing, one.trainable()), (vec![], other.trainable()), "{name}, {dtype:?}");
            assert_eq!(one.parameters.frozen, other.parameters.frozen, "{name}, {dtype:?}");
        }
    }
}

#[test]
fn what_is_not_finite_in_16_bits_is_refused() {
    let mut network = Network::new(&Description::softmax(2, 2), 1).unwrap();
    for (dtype, bits) in [(Dtype::F16, 0x7c00u16), (Dtype::F16, 0x7e00), (Dtype::BF16, 0xff80), (Dtype::BF16, 0x7fc0)] {
        let bytes = [0, 0, bits, 0].iter().flat_map(|bits: &u16| bits.to_le_bytes()).collect();
        let error = network.import(&file(&[("0.weight".into(), dtype, vec![2, 2], bytes)])).unwrap_err().to_string();
        assert!(error.contains("not finite"), "{error}");
    }
    let error = network.import(&file(&[("0.weight".into(), Dtype::F64, vec![2, 2], vec![0; 32])])).unwrap_err();
    assert!(error.to_string().contains("convert the file to F32"), "{error}");
}

#[test]
fn every_weight_is_within_half_a_step_of_what_it_was() {
    let mut stream = Stream::new(5);
    let mut rows: Vec<Vec<f32>> = (0..200)
        .map(|i| {
            let size = 10f32.powi(i % 60 - 35);
            stream.numbers(1 + i as usize % 40).iter().map(|x| x * size).collect()
        })
        .collect();
    // Ends: nothing, the least, the largest, ties, one that is far larger than all others.
    rows.extend([
        vec![0.0, -0.0],
        vec![f32::from_bits(1), 0.0],
        vec![f32::from_bits(200), f32::from_bits(1)],
        vec![f32::MAX, -f32::MAX, 1.0],
        vec![127.0, 0.5, 1.5, -2.5],
        vec![1e30, 1e-30, -1e30],
    ]);
    for row in rows {
        let bytes = row.iter().flat_map(|x| x.to_le_bytes()).collect();
        let small = quantize(&file(&[("x".into(), Dtype::F32, vec![1, row.len()], bytes)]), "1:ab").unwrap();
        let all = SafeTensors::deserialize(&small.file).unwrap();
        let step = f32::from_le_bytes(all.tensor("x_scale").unwrap().data().try_into().unwrap());
        let integers: Vec<i8> = all.tensor("x").unwrap().data().iter().map(|byte| byte.cast_signed()).collect();
        let back = numbers("x", &all.tensor("x").unwrap(), &all).unwrap();
        for ((weight, integer), back) in row.iter().zip(&integers).zip(back) {
            let exact = f64::from(*integer) * f64::from(step);
            let most = 0.5 * f64::from(step) * (1.0 + 1e-12);
            assert!((exact - f64::from(*weight)).abs() <= most, "{weight} became {integer} of {step}");
            // As a float of 32 bits: half of its last bit more.
            let float = (exact.abs() / 2f64.powi(24)).max(f64::from(f32::from_bits(1)) / 2.0);
            assert!((f64::from(back) - f64::from(*weight)).abs() <= most + float, "{weight} became {back}");
            assert!(back.is_finite() && *integer > i8::MIN);
        }
        let largest = row.iter().map(|x| x.abs()).fold(0.0, f32::max);
        // A step is no wider than it must be, and the largest weight has the largest integer.
        assert!(largest == 0.0 || f64::from(step) <= f64::from((largest / 127.0).next_up()), "{largest} {step}");
        assert!(largest < 1e-40 || integers.iter().any(|integer| integer.abs() == 127), "{row:?} {integers:?}");
    }
    // Control: steps of a whole tensor are too wide for an output of small weights.
    let (wide, narrow) = (1.0f64 / 127.0, 1e-3 / 127.0);
    assert!((1e-3f64 - (1e-3 / wide).round() * wide).abs() > 0.5 * narrow);
}

#[test]
fn a_quantised_network_predicts_nearly_what_it_did() {
    for (name, description) in descriptions() {
        let one = network(&description, 3);
        let small = quantize(&one.export().unwrap(), "2:cd").unwrap();
        let numbers: usize = one.parameters.tensors().map(|(_, numbers)| numbers.len()).sum();
        assert_eq!(small.integers + small.floats, numbers, "{name}");
        let mut other = Network::new(&description, 4).unwrap();
        assert_eq!(other.import(&small.file).unwrap(), Vec::<String>::new(), "{name}");
        // Outputs come first in every shape here, so that a row is an output.
        for ((layer, before), (_, after)) in one.parameters.tensors().zip(other.parameters.tensors()) {
            let width = if layer.shape.len() < 2 { 1 } else { before.len() / layer.shape[0] };
            for (before, after) in before.chunks(width).zip(after.chunks(width)) {
                let largest = before.iter().fold(0.0f32, |most, x| most.max(x.abs()));
                let most = if layer.shape.len() < 2 { 0.0 } else { largest / 254.0 * 1.00001 };
                assert!(before.iter().zip(after).all(|(a, b)| (a - b).abs() <= most), "{name}, {}", layer.name);
            }
        }
        let inputs = batch(&description, &[1, 2, 3, 1], 5).inputs;
        let (exact, near) = (one.predict(&inputs).unwrap(), other.predict(&inputs).unwrap());
        let spread = exact.iter().map(|x| x.abs()).fold(1.0, f32::max);
        assert!(exact.iter().zip(&near).all(|(a, b)| (a - b).abs() < 0.05 * spread), "{name}: {exact:?} {near:?}");
        assert_eq!(quantize(&one.export().unwrap(), "2:cd").unwrap().file, small.file, "{name}: the same bytes");
        let error = quantize(&small.file, "2:cd").unwrap_err().to_string();
        assert!(error.contains("integers already"), "{error}");
    }
}

#[test]
fn integers_without_their_steps_are_refused_and_change_nothing() {
    let one = network(&Description::softmax(4, 3), 1);
    let whole = tensors(&quantize(&one.export().unwrap(), "1:ab").unwrap().file);
    let mut other = Network::new(&Description::softmax(4, 3), 2).unwrap();
    let before = other.trainable().to_vec();
    let mut refused = |said: &str, change: &dyn Fn(&mut Vec<Tensor>)| {
        let mut odd = whole.clone();
        change(&mut odd);
        let error = other.import(&file(&odd)).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
        assert_eq!(other.trainable(), before);
    };
    fn scale(all: &mut [Tensor]) -> &mut Tensor {
        all.iter_mut().find(|(name, ..)| name == "0.weight_scale").unwrap()
    }
    refused("0.weight_scale is missing", &|all| all.retain(|(name, ..)| name != "0.weight_scale"));
    refused("should be F32 [3, 1]", &|all| scale(all).2 = vec![3]);
    refused("should be F32 [3, 1]", &|all| {
        (scale(all).1, scale(all).2, scale(all).3) = (Dtype::F16, vec![3, 1], vec![0; 6])
    });
    for odd in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        refused("no positive number", &|all| scale(all).3[4..8].copy_from_slice(&odd.to_le_bytes()));
    }
    for bytes in [&b"nothing"[..], &[], &file(&whole)[..40]] {
        assert!(other.import(bytes).is_err() && quantize(bytes, "1:ab").is_err());
    }
    let mut odd = network(&Description::softmax(4, 3), 1);
    odd.trainable_mut()[1] = f32::INFINITY;
    assert!(quantize(&odd.export().unwrap(), "1:ab").unwrap_err().to_string().contains("not finite"));
    assert_eq!(int8::scaled(&[], &[]), Vec::<f32>::new());
}
