//! Convolutions and pools of images, whose numbers lie by row, column, channel.

use std::ops::Range;

use super::buffer::Buffer;
use super::linear::Linear;
use super::parameters::Parameters;
use super::simd::wide;
use super::spans::Spans;
use super::tape::Tape;

/// Height, width and channels of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
}

impl Size {
    pub fn numbers(&self) -> usize {
        self.height * self.width * self.channels
    }
}

/// Square windows that move over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    pub input: Size,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
}

impl Windows {
    /// How many windows there are down and across; none if the image is too small.
    pub fn count(&self) -> Option<(usize, usize)> {
        let along = |length: usize| {
            let padded = length.checked_add(self.padding.checked_mul(2)?)?;
            Some(padded.checked_sub(self.kernel)?.checked_div(self.stride)? + 1)
        };
        Some((along(self.input.height)?, along(self.input.width)?))
    }

    /// Every window as a row: kernel × kernel × channels numbers, zero outside the image.
    fn unfold(&self, images: &[f32], windows: (usize, usize)) -> Buffer {
        let run = self.kernel * self.input.channels;
        let count = images.len() / self.input.numbers();
        let mut unfolded = Buffer::zeros(count * windows.0 * windows.1 * self.kernel * run);
        let lines = self.lines(windows);
        let mut parts = unfolded.chunks_exact_mut(run);
        for image in images.chunks_exact(self.input.numbers()) {
            for ((from, inside), part) in lines.iter().zip(&mut parts) {
                part[inside.clone()].copy_from_slice(&image[*from..from + inside.len()]);
            }
        }
        unfolded
    }

    /// Adds rows of windows back to where their numbers came from.
    fn fold(&self, unfolded: &[f32], windows: (usize, usize)) -> Buffer {
        let run = self.kernel * self.input.channels;
        let row = self.kernel * run;
        let count = unfolded.len() / (windows.0 * windows.1 * row);
        let mut images = Buffer::zeros(count * self.input.numbers());
        let lines = self.lines(windows);
        let mut parts = unfolded.chunks_exact(run);
        for image in images.chunks_exact_mut(self.input.numbers()) {
            for ((from, inside), part) in lines.iter().zip(&mut parts) {
                let place = &mut image[*from..from + inside.len()];
                place.iter_mut().zip(&part[inside.clone()]).for_each(|(sum, &g)| *sum += g);
            }
        }
        images
    }

    /// All lines of all windows: where each begins in the image, and which part of it lies inside.
    fn lines(&self, windows: (usize, usize)) -> Vec<(usize, Range<usize>)> {
        let corners = (0..windows.0).flat_map(|top| (0..windows.1).map(move |left| (top, left)));
        let lines = corners.flat_map(|(top, left)| (0..self.kernel).map(move |dy| (top, left, dy)));
        lines.map(|(top, left, dy)| self.line(top, left, dy).unwrap_or((0, 0..0))).collect()
    }

    fn line(&self, top: usize, left: usize, dy: usize) -> Option<(usize, Range<usize>)> {
        let Size { height, width, channels } = self.input;
        let y = (top * self.stride + dy).checked_sub(self.padding).filter(|&y| y < height)?;
        let x = left * self.stride;
        let first = self.padding.saturating_sub(x);
        let last = (width + self.padding).saturating_sub(x).min(self.kernel);
        if first >= last {
            return None;
        }
        Some(((y * width + x + first - self.padding) * channels, first * channels..last * channels))
    }
}

/// A convolution: a linear layer of every window.
#[derive(Clone, Debug)]
pub struct Conv {
    pub windows: Windows,
    pub count: (usize, usize),
    /// Weights are channels × kernel × kernel × input channels.
    pub linear: Linear,
}

impl Conv {
    pub fn forward(&self, parameters: &Parameters, images: &[f32]) -> (Buffer, Buffer) {
        let unfolded = self.windows.unfold(images, self.count);
        let (outputs, _) = self.linear.forward(parameters, &unfolded);
        (outputs, unfolded)
    }

    pub fn backward(
        &self,
        parameters: &Parameters,
        unfolded: Buffer,
        gradients: Buffer,
        spans: &Spans,
        tape: &mut Tape<'_>,
        wanted: bool,
    ) -> Buffer {
        let spans = spans.times(self.count.0 * self.count.1);
        let saved = (unfolded, Vec::new());
        let back = self.linear.backward(parameters, saved, gradients, &spans, tape, wanted);
        if wanted { self.windows.fold(&back, self.count) } else { back }
    }
}

/// The largest or the mean number of every window, by channel. Windows lie inside the image.
#[derive(Clone, Debug)]
pub struct Pool {
    pub windows: Windows,
    pub count: (usize, usize),
    pub largest: bool,
}

impl Pool {
    /// Outputs, and of the largest ones where in the window they lie.
    pub fn forward(&self, images: &[f32]) -> (Buffer, Vec<u32>) {
        let channels = self.windows.input.channels;
        let size = self.count.0 * self.count.1 * channels;
        let rows = images.len() / self.windows.input.numbers();
        if !self.largest {
            let mut outputs = Buffer::zeros(rows * size);
            let share = 1.0 / (self.windows.kernel * self.windows.kernel) as f32;
            for (index, out) in outputs.chunks_exact_mut(channels).enumerate() {
                for start in self.inside(index) {
                    super::simd::add_scaled(out, share, &images[start..start + channels]);
                }
            }
            return (outputs, Vec::new());
        }
        let (mut outputs, mut places) = (Buffer::zeros(rows * size), vec![0; rows * size]);
        outputs.fill(f32::NEG_INFINITY);
        wide(
            #[inline(always)]
            || {
                let outputs = outputs.chunks_exact_mut(channels).zip(places.chunks_exact_mut(channels));
                for (index, (outputs, places)) in outputs.enumerate() {
                    for (place, start) in (0..).zip(self.inside(index)) {
                        keep_larger(outputs, places, place, &images[start..start + channels]);
                    }
                }
            },
        );
        (outputs, places)
    }

    pub fn backward(&self, places: &[u32], gradients: &[f32]) -> Buffer {
        let channels = self.windows.input.channels;
        let rows = gradients.len() / (self.count.0 * self.count.1 * channels);
        let mut back = Buffer::zeros(rows * self.windows.input.numbers());
        let share = 1.0 / (self.windows.kernel * self.windows.kernel) as f32;
        wide(
            #[inline(always)]
            || {
                for (index, g) in gradients.chunks_exact(channels).enumerate() {
                    let places = places.get(index * channels..(index + 1) * channels);
                    for (place, start) in (0..).zip(self.inside(index)) {
                        let back = &mut back[start..start + channels];
                        match places {
                            Some(places) => add_where(back, places, place, g),
                            None => super::simd::add_scaled(back, share, g),
                        }
                    }
                }
            },
        );
        back
    }

    /// Where the numbers of an output's window begin, position by position.
    #[inline(always)]
    fn inside(&self, index: usize) -> impl Iterator<Item = usize> {
        let Windows { input, kernel, stride, .. } = self.windows;
        let (row, place) = (index / (self.count.0 * self.count.1), index % (self.count.0 * self.count.1));
        let corner = (place / self.count.1 * stride, place % self.count.1 * stride);
        let first = row * input.numbers() + (corner.0 * input.width + corner.1) * input.channels;
        let lines = (0..kernel).map(move |y| first + y * input.width * input.channels);
        lines.flat_map(move |line| (0..kernel).map(move |x| line + x * input.channels))
    }
}

/// Takes every number that is larger, and where it comes from. NaN wins, so that it is not lost.
#[inline(always)]
fn keep_larger(largest: &mut [f32], places: &mut [u32], place: u32, numbers: &[f32]) {
    for ((largest, at), &x) in largest.iter_mut().zip(places).zip(numbers) {
        let wins = x > *largest || x.is_nan();
        *largest = if wins { x } else { *largest };
        *at = if wins { place } else { *at };
    }
}

/// Adds gradients to the numbers that were the largest.
#[inline(always)]
fn add_where(sums: &mut [f32], places: &[u32], place: u32, gradients: &[f32]) {
    for ((sum, &at), &g) in sums.iter_mut().zip(places).zip(gradients) {
        *sum += if at == place { g } else { 0.0 };
    }
}

/// From (row, column, channel) to (channel, row, column) or back: `inner` numbers become the outer ones.
pub fn transpose(images: &[f32], outer: usize, inner: usize) -> Buffer {
    let mut out = Buffer::zeros(images.len());
    for (image, out) in images.chunks_exact(outer * inner).zip(out.chunks_exact_mut(outer * inner)) {
        for (position, row) in image.chunks_exact(inner).enumerate() {
            for (channel, &x) in row.iter().enumerate() {
                out[channel * outer + position] = x;
            }
        }
    }
    out
}
