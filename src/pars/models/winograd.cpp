// 3×3 convolutions with stride 1 and padding 1 by Winograd's F(4×4, 3×3) (Lavin & Gray 2016, arXiv:1509.09308), on a CPU.
//
// An image is cut into 4×4 outputs, each from a window of 6×6 inputs. With V = Bᵀ·window·B and U = G·weight·Gᵀ the
// outputs are Aᵀ·(U·V)·A, where U·V is, for each of the 36 places, a product over channels: 36 multiplications where the
// sum over 3×3 inputs takes 144. Everything is linear, so the backward is the transposed maps in the opposite order.
//
// Memory is NHWC, so that 8 neighboring channels are one vector. Images are taken some at a time, each time by one
// thread: what is between the transforms should stay in its cache.
#include <ATen/Parallel.h>
#include <torch/extension.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace {

typedef float Vector __attribute__((vector_size(32), aligned(4)));
typedef int32_t Choice __attribute__((vector_size(32)));
typedef uint8_t Bytes __attribute__((vector_size(8), aligned(1)));
constexpr int64_t LANES = 8, TILE = 4, WINDOW = 6, PLACES = WINDOW * WINDOW;
constexpr int64_t TILES_AT_ONCE = 128;

Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
void store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }

// The maps of one row or column; `_t` is the transposed one.
void map_b(const Vector* d, Vector* out) {  // Bᵀ: 6 -> 6
  const Vector a = d[4] - 4 * d[2], b = d[3] - 4 * d[1], c = d[4] - d[2], e = 2 * (d[3] - d[1]);
  out[0] = 4 * d[0] - 5 * d[2] + d[4];
  out[1] = a + b;
  out[2] = a - b;
  out[3] = c + e;
  out[4] = c - e;
  out[5] = 4 * d[1] - 5 * d[3] + d[5];
}

void map_b_t(const Vector* m, Vector* out) {  // B: 6 -> 6
  const Vector s = m[1] + m[2], t = m[1] - m[2], u = m[3] + m[4], w = m[3] - m[4];
  out[0] = 4 * m[0];
  out[1] = 4 * m[5] - 4 * t - 2 * w;
  out[2] = -5 * m[0] - 4 * s - u;
  out[3] = t + 2 * w - 5 * m[5];
  out[4] = m[0] + s + u;
  out[5] = m[5];
}

void map_a(const Vector* m, Vector* out) {  // Aᵀ: 6 -> 4
  const Vector s = m[1] + m[2], t = m[1] - m[2], u = m[3] + m[4], w = m[3] - m[4];
  out[0] = m[0] + s + u;
  out[1] = t + 2 * w;
  out[2] = s + 4 * u;
  out[3] = t + 8 * w + m[5];
}

void map_a_t(const Vector* y, Vector* out) {  // A: 4 -> 6
  const Vector s = y[0] + y[2], t = y[1] + y[3], u = y[0] + 4 * y[2], w = 2 * y[1] + 8 * y[3];
  out[0] = y[0];
  out[1] = s + t;
  out[2] = s - t;
  out[3] = u + w;
  out[4] = u - w;
  out[5] = y[3];
}

using Map = void (*)(const Vector*, Vector*);

// Some images [n, height, width, channels] and their tiles, of which an array [36, tiles, channels] holds the places.
struct Images {
  int64_t n, height, width, channels;

  int64_t rows() const { return (height + TILE - 1) / TILE; }
  int64_t columns() const { return (width + TILE - 1) / TILE; }
  int64_t tiles_of_one() const { return rows() * columns(); }
  int64_t tiles() const { return n * tiles_of_one(); }
};

// Where a tile is read from and written to: pixels, or pixels of which the largest of each 2×2 is kept.
struct Pixels {
  float* data;  // [n, height, width, channels]
  Images size;

  float* at(int64_t image, int64_t y, int64_t x, int64_t c) const {
    return data + ((image * size.height + y) * size.width + x) * size.channels + c;
  }

  bool has(int64_t y, int64_t x) const { return y >= 0 && y < size.height && x >= 0 && x < size.width; }

  Vector read(int64_t image, int64_t y, int64_t x, int64_t c) const {  // beyond the border everything is 0
    return has(y, x) ? load(at(image, y, x, c)) : Vector{};
  }

  // Windows overlap (side above 4): they are added up, and pixels begin at 0.
  template <int64_t side>
  void write(const Vector (&tile)[side][side], int64_t image, int64_t top, int64_t left, int64_t c) const {
    for (int64_t y = std::max<int64_t>(0, -top); y < std::min(side, size.height - top); ++y)
      for (int64_t x = std::max<int64_t>(0, -left); x < std::min(side, size.width - left); ++x) {
        float* to = at(image, top + y, left + x, c);
        store(to, side > TILE ? load(to) + tile[y][x] : tile[y][x]);
      }
  }
};

struct Pooled {
  Pixels largest;   // [n, height / 2, width / 2, channels]
  uint8_t* choice;  // which of the four it was, row by row

  Vector read(int64_t image, int64_t y, int64_t x, int64_t c) const {  // the gradient goes where the largest was
    if (!largest.has(y / 2, x / 2)) return Vector{};
    const float* from = largest.at(image, y / 2, x / 2, c);
    const Choice chosen = __builtin_convertvector(*reinterpret_cast<const Bytes*>(choice + (from - largest.data)), Choice);
    return chosen == static_cast<int32_t>(y % 2 * 2 + x % 2) ? load(from) : Vector{};
  }

  template <int64_t side>
  void write(const Vector (&tile)[side][side], int64_t image, int64_t top, int64_t left, int64_t c) const {
    for (int64_t y = 0; y < side; y += 2)
      for (int64_t x = 0; x < side; x += 2) {
        if (!largest.has((top + y) / 2, (left + x) / 2)) continue;
        Vector best = tile[y][x];
        Choice chosen = {};
        for (int32_t place = 1; place < 4; ++place) {
          const Vector value = tile[y + place / 2][x + place % 2];
          const Choice better = (value > best) | (value != value);  // what is not a number stays, as in torch
          best = better ? value : best;
          chosen = better ? Choice{} + place : chosen;
        }
        float* to = largest.at(image, (top + y) / 2, (left + x) / 2, c);
        store(to, best);
        *reinterpret_cast<Bytes*>(choice + (to - largest.data)) = __builtin_convertvector(chosen, Bytes);
      }
  }
};

// From side×side pixels that begin `margin` before each tile to its 36 places.
template <int64_t side, int64_t margin, Map map, typename Source>
void to_places(const Source& pixels, float* places, const Images& size) {
  for (int64_t tile = 0; tile < size.tiles(); ++tile) {
    const int64_t image = tile / size.tiles_of_one();
    const int64_t top = tile / size.columns() % size.rows() * TILE - margin;
    const int64_t left = tile % size.columns() * TILE - margin;
    for (int64_t c = 0; c < size.channels; c += LANES) {
      Vector half[WINDOW][side], in[side], out[WINDOW];
      for (int64_t x = 0; x < side; ++x) {
        for (int64_t y = 0; y < side; ++y) in[y] = pixels.read(image, top + y, left + x, c);
        map(in, out);
        for (int64_t y = 0; y < WINDOW; ++y) half[y][x] = out[y];
      }
      for (int64_t y = 0; y < WINDOW; ++y) {
        map(half[y], out);
        for (int64_t x = 0; x < WINDOW; ++x)
          store(places + ((y * WINDOW + x) * size.tiles() + tile) * size.channels + c, out[x]);
      }
    }
  }
}

// Back from 36 places to the pixels.
template <int64_t side, int64_t margin, Map map, typename Target>
void from_places(const float* places, const Target& pixels, const Images& size) {
  for (int64_t tile = 0; tile < size.tiles(); ++tile) {
    const int64_t image = tile / size.tiles_of_one();
    const int64_t top = tile / size.columns() % size.rows() * TILE - margin;
    const int64_t left = tile % size.columns() * TILE - margin;
    for (int64_t c = 0; c < size.channels; c += LANES) {
      Vector half[side][WINDOW], in[WINDOW], out[side], whole[side][side];
      for (int64_t x = 0; x < WINDOW; ++x) {
        for (int64_t y = 0; y < WINDOW; ++y)
          in[y] = load(places + ((y * WINDOW + x) * size.tiles() + tile) * size.channels + c);
        map(in, out);
        for (int64_t y = 0; y < side; ++y) half[y][x] = out[y];
      }
      for (int64_t y = 0; y < side; ++y) map(half[y], whole[y]);
      pixels.write(whole, image, top, left, c);
    }
  }
}

int64_t images_at_once(const Images& all) {
  return std::min(all.n, std::max<int64_t>(1, TILES_AT_ONCE / all.tiles_of_one()));
}

// Calls visit(first image, how many) for some images at a time, on all threads; products inside are each thread's own.
template <typename Visit>
void in_turns(const Images& all, Visit visit) {
  const int64_t at_once = images_at_once(all);
  at::parallel_for(0, (all.n + at_once - 1) / at_once, 1, [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView no_gradients;  // a thread does not inherit that
    for (int64_t turn = begin; turn < end; ++turn)
      visit(turn * at_once, std::min(at_once, all.n - turn * at_once));
  });
}

// Memory for the places of one turn, a piece for each thread.
class Room {
 public:
  Room(const Images& all, int64_t channels, const at::TensorOptions& options)
      : channels_(channels),
        all_(at::empty({at::get_num_threads(), PLACES * images_at_once(all) * all.tiles_of_one() * channels}, options)) {}

  at::Tensor places(int64_t tiles) const {  // [36, tiles, channels] of the thread that asks
    return all_[at::get_thread_num()].narrow(0, 0, PLACES * tiles * channels_).view({PLACES, tiles, channels_});
  }

 private:
  int64_t channels_;
  at::Tensor all_;
};

at::Tensor weight_map(const at::Tensor& weight) {  // G ⊗ G: [36, 9]
  const float sixth = 1.f / 6, twelfth = 1.f / 12, last = 1.f / 24;
  const at::Tensor g = at::tensor({.25f, 0.f, 0.f, -sixth, -sixth, -sixth, -sixth, sixth, -sixth, last, twelfth, sixth,
                                   last, -twelfth, sixth, 0.f, 0.f, 1.f}, weight.options()).view({WINDOW, 3});
  return at::kron(g, g);
}

at::Tensor places_of(const at::Tensor& weight) {  // U: [K, C, 3, 3] -> [36, C, K]
  const int64_t outputs = weight.size(0), inputs = weight.size(1);
  const at::Tensor flat = weight.permute({2, 3, 1, 0}).reshape({9, inputs * outputs});
  return at::mm(weight_map(weight), flat).view({PLACES, inputs, outputs});
}

Pixels pixels_of(const at::Tensor& x) { return {x.data_ptr<float>(), {x.size(0), x.size(2), x.size(3), x.size(1)}}; }

Pixels from_image(const Pixels& all, int64_t first) { return {all.at(first, 0, 0, 0), all.size}; }

Pooled from_image(const Pooled& all, int64_t first) {
  const Pixels largest = from_image(all.largest, first);
  return {largest, all.choice + (largest.data - all.largest.data)};
}

// With channels of zeros, so that all are whole vectors.
at::Tensor padded(const at::Tensor& x) {
  const int64_t lacking = (LANES - x.size(1) % LANES) % LANES;
  if (lacking == 0) return x;
  return at::constant_pad_nd(x, {0, 0, 0, 0, 0, lacking}).contiguous(at::MemoryFormat::ChannelsLast);
}

template <typename Target>
void convolve_into(const Target& y, const at::Tensor& given, const at::Tensor& given_weight) {
  const at::Tensor x = padded(given), weight = padded(given_weight);
  const Pixels source = pixels_of(x);
  const Images in = source.size;
  const int64_t outputs = weight.size(0);
  const at::Tensor u = places_of(weight);
  const Room inputs_room(in, in.channels, x.options()), outputs_room(in, outputs, x.options());
  in_turns(in, [&](int64_t first, int64_t n) {
    const Images read{n, in.height, in.width, in.channels}, written{n, in.height, in.width, outputs};
    at::Tensor v = inputs_room.places(read.tiles()), product = outputs_room.places(read.tiles());
    to_places<WINDOW, 1, map_b>(from_image(source, first), v.data_ptr<float>(), read);
    at::bmm_out(product, v, u);
    from_places<TILE, 0, map_a>(product.data_ptr<float>(), from_image(y, first), written);
  });
}

// Gradients of x and weight from the gradient of the output.
template <typename Source>
std::tuple<at::Tensor, at::Tensor> backward_from(const Source& gradient, const at::Tensor& given,
                                                 const at::Tensor& given_weight) {
  const at::Tensor x = padded(given), weight = padded(given_weight);
  const Pixels source = pixels_of(x);
  const Images in = source.size;
  const int64_t outputs = weight.size(0);
  const at::Tensor u_t = places_of(weight).transpose(1, 2).contiguous();
  const at::Tensor of_x = at::empty_like(x);
  const Pixels target = pixels_of(of_x);
  std::vector<at::Tensor> sums(at::get_num_threads());  // of each thread: turns are shared out the same way every time
  const Room inputs_room(in, in.channels, x.options()), outputs_room(in, outputs, x.options());
  in_turns(in, [&](int64_t first, int64_t n) {
    const Images read{n, in.height, in.width, in.channels}, written{n, in.height, in.width, outputs};
    at::Tensor v = inputs_room.places(read.tiles());
    const at::Tensor of_product = outputs_room.places(read.tiles());
    to_places<WINDOW, 1, map_b>(from_image(source, first), v.data_ptr<float>(), read);
    to_places<TILE, 0, map_a_t>(from_image(gradient, first), of_product.data_ptr<float>(), written);
    at::Tensor& of_u = sums[at::get_thread_num()];
    if (!of_u.defined()) of_u = at::zeros({PLACES, in.channels, outputs}, x.options());
    of_u.baddbmm_(v.transpose(1, 2), of_product);
    at::bmm_out(v, of_product, u_t);  // the gradient of v, in its place
    const Pixels here = from_image(target, first);
    std::fill(here.data, here.at(n, 0, 0, 0), 0.f);
    from_places<WINDOW, 1, map_b_t>(v.data_ptr<float>(), here, read);
  });
  at::Tensor of_u = at::zeros({PLACES, in.channels, outputs}, x.options());
  for (const at::Tensor& sum : sums)
    if (sum.defined()) of_u += sum;
  const at::Tensor flat = at::mm(weight_map(weight).t(), of_u.view({PLACES, in.channels * outputs}));
  const at::Tensor of_weight = flat.view({3, 3, in.channels, outputs}).permute({3, 2, 0, 1});
  return {of_x.narrow(1, 0, given.size(1)),
          of_weight.narrow(1, 0, given.size(1)).contiguous(at::MemoryFormat::ChannelsLast)};
}

// What is called from Python, which checks shapes and layouts: x [N, C, H, W] and weight [K, C, 3, 3] are channels_last,
// and K is a multiple of 8.

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor y =
      at::empty({x.size(0), weight.size(0), x.size(2), x.size(3)}, x.options(), at::MemoryFormat::ChannelsLast);
  convolve_into(pixels_of(y), x, weight);
  return y;
}

std::tuple<at::Tensor, at::Tensor> convolve_backward(const at::Tensor& gradient, const at::Tensor& x,
                                                     const at::Tensor& weight) {
  return backward_from(pixels_of(gradient), x, weight);
}

// The same followed by 2×2 max-pooling: the map between them is never written to memory.
std::tuple<at::Tensor, at::Tensor> convolve_pool(const at::Tensor& x, const at::Tensor& weight) {
  const std::vector<int64_t> shape{x.size(0), weight.size(0), x.size(2) / 2, x.size(3) / 2};
  const at::Tensor y = at::empty(shape, x.options(), at::MemoryFormat::ChannelsLast);
  const at::Tensor choice = at::empty(shape, x.options().dtype(at::kByte), at::MemoryFormat::ChannelsLast);
  convolve_into(Pooled{pixels_of(y), choice.data_ptr<uint8_t>()}, x, weight);
  return {y, choice};
}

std::tuple<at::Tensor, at::Tensor> convolve_pool_backward(const at::Tensor& gradient, const at::Tensor& choice,
                                                          const at::Tensor& x, const at::Tensor& weight) {
  return backward_from(Pooled{pixels_of(gradient), choice.data_ptr<uint8_t>()}, x, weight);
}

}  // namespace

TORCH_LIBRARY(pars_winograd, m) {
  m.def("convolve(Tensor x, Tensor weight) -> Tensor");
  m.def("convolve_backward(Tensor gradient, Tensor x, Tensor weight) -> (Tensor, Tensor)");
  m.def("convolve_pool(Tensor x, Tensor weight) -> (Tensor, Tensor)");
  m.def("convolve_pool_backward(Tensor gradient, Tensor choice, Tensor x, Tensor weight) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(pars_winograd, CPU, m) {
  m.impl("convolve", &convolve);
  m.impl("convolve_backward", &convolve_backward);
  m.impl("convolve_pool", &convolve_pool);
  m.impl("convolve_pool_backward", &convolve_pool_backward);
}
