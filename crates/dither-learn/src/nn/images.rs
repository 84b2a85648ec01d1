//! Convolutions and pools of images, whose numbers lie by row, column, channel.

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
    fn unfold(&self, images: &[f32], windows: (usize, usize)) -> Vec<f32> {
        let run = self.kernel * self.input.channels;
        let row = self.kernel * run;
        let count = images.len() / self.input.numbers();
        let mut unfolded = vec![0.0; count * windows.0 * windows.1 * row];
        let mut patches = unfolded.chunks_exact_mut(row);
        for image in images.chunks_exact(self.input.numbers()) {
            for (top, left) in corners(windows) {
                let Some(patch) = patches.next() else { return unfolded };
                for (dy, line) in patch.chunks_exact_mut(run).enumerate() {
                    if let Some((from, to)) = self.line(top, left, dy) {
                        line[to.clone()].copy_from_slice(&image[from..from + to.len()]);
                    }
                }
            }
        }
        unfolded
    }

    /// Adds rows of windows back to where their numbers came from.
    fn fold(&self, unfolded: &[f32], windows: (usize, usize)) -> Vec<f32> {
        let run = self.kernel * self.input.channels;
        let row = self.kernel * run;
        let count = unfolded.len() / (windows.0 * windows.1 * row);
        let mut images = vec![0.0; count * self.input.numbers()];
        let mut patches = unfolded.chunks_exact(row);
        for image in images.chunks_exact_mut(self.input.numbers()) {
            for (top, left) in corners(windows) {
                let Some(patch) = patches.next() else { return images };
                for (dy, line) in patch.chunks_exact(run).enumerate() {
                    if let Some((from, to)) = self.line(top, left, dy) {
                        let place = &mut image[from..from + to.len()];
                        place.iter_mut().zip(&line[to]).for_each(|(sum, &g)| *sum += g);
                    }
                }
            }
        }
        images
    }

    /// Of one line of one window: where it begins in the image, and which part of it lies inside.
    fn line(&self, top: usize, left: usize, dy: usize) -> Option<(usize, std::ops::Range<usize>)> {
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

fn corners(windows: (usize, usize)) -> impl Iterator<Item = (usize, usize)> {
    (0..windows.0).flat_map(move |top| (0..windows.1).map(move |left| (top, left)))
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
    pub fn forward(&self, parameters: &Parameters, images: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let unfolded = self.windows.unfold(images, self.count);
        let (outputs, _) = self.linear.forward(parameters, &unfolded);
        (outputs, unfolded)
    }

    pub fn backward(
        &self,
        parameters: &Parameters,
        unfolded: Vec<f32>,
        gradients: Vec<f32>,
        spans: &Spans,
        tape: &mut Tape<'_>,
        wanted: bool,
    ) -> Vec<f32> {
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
    pub fn forward(&self, images: &[f32]) -> (Vec<f32>, Vec<u16>) {
        let channels = self.windows.input.channels;
        let size = self.count.0 * self.count.1 * channels;
        let rows = images.len() / self.windows.input.numbers();
        let first = if self.largest { f32::NEG_INFINITY } else { 0.0 };
        let mut outputs = vec![first; rows * size];
        let mut places = vec![0u16; if self.largest { rows * size } else { 0 }];
        let share = 1.0 / (self.windows.kernel * self.windows.kernel) as f32;
        for (index, out) in outputs.chunks_exact_mut(channels).enumerate() {
            let places = places.get_mut(index * channels..(index + 1) * channels);
            match places {
                Some(places) => wide(|| {
                    for (place, start) in (0u16..).zip(self.inside(index)) {
                        for ((out, at), &x) in out.iter_mut().zip(&mut *places).zip(&images[start..start + channels]) {
                            // NaN wins, so that it is not lost.
                            let wins = x > *out || x.is_nan();
                            *out = if wins { x } else { *out };
                            *at = if wins { place } else { *at };
                        }
                    }
                }),
                None => {
                    for start in self.inside(index) {
                        super::simd::add_scaled(out, share, &images[start..start + channels]);
                    }
                }
            }
        }
        (outputs, places)
    }

    pub fn backward(&self, places: &[u16], gradients: &[f32]) -> Vec<f32> {
        let channels = self.windows.input.channels;
        let rows = gradients.len() / (self.count.0 * self.count.1 * channels);
        let mut back = vec![0.0; rows * self.windows.input.numbers()];
        let share = 1.0 / (self.windows.kernel * self.windows.kernel) as f32;
        for (index, g) in gradients.chunks_exact(channels).enumerate() {
            match places.get(index * channels..(index + 1) * channels) {
                Some(places) => wide(|| {
                    for (place, start) in (0u16..).zip(self.inside(index)) {
                        for ((sum, &g), &at) in back[start..start + channels].iter_mut().zip(g).zip(places) {
                            *sum += if at == place { g } else { 0.0 };
                        }
                    }
                }),
                None => {
                    for start in self.inside(index) {
                        super::simd::add_scaled(&mut back[start..start + channels], share, g);
                    }
                }
            }
        }
        back
    }

    /// Where the numbers of an output's window begin, position by position.
    fn inside(&self, index: usize) -> impl Iterator<Item = usize> {
        let Windows { input, kernel, stride, .. } = self.windows;
        let (row, place) = (index / (self.count.0 * self.count.1), index % (self.count.0 * self.count.1));
        let corner = (place / self.count.1 * stride, place % self.count.1 * stride);
        (0..kernel * kernel).map(move |offset| {
            let (y, x) = (corner.0 + offset / kernel, corner.1 + offset % kernel);
            row * input.numbers() + (y * input.width + x) * input.channels
        })
    }
}

/// From (row, column, channel) to (channel, row, column) or back: `inner` numbers become the outer ones.
pub fn transpose(images: &[f32], outer: usize, inner: usize) -> Vec<f32> {
    let mut out = vec![0.0; images.len()];
    for (image, out) in images.chunks_exact(outer * inner).zip(out.chunks_exact_mut(outer * inner)) {
        for (position, row) in image.chunks_exact(inner).enumerate() {
            for (channel, &x) in row.iter().enumerate() {
                out[channel * outer + position] = x;
            }
        }
    }
    out
}
