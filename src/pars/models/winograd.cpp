// 3×3 convolutions with stride 1 and padding 1 by Winograd's F(4×4, 3×3) (Lavin & Gray 2016, arXiv:1509.09308), on a CPU.
//
// An image is cut into 4×4 outputs, each from a window of 6×6 inputs. With V = Bᵀ·window·B and U = G·weight·Gᵀ the
// outputs are Aᵀ·(U·V)·A, where U·V is, for each of the 36 places, a product over channels: 36 multiplications where the
// sum over 3×3 inputs takes 144. Everything is linear, so the backward is the transposed maps in the opposite order.
//
// Memory is NHWC, so that 8 neighbouring channels are one vector. Images are taken some at a time, each time by one
// thread: what is between the transforms should stay in its cache.
#include <ATen/Parallel.h>
#include <torch/extension.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace {

typedef float Vector __attribute__((vector_size(32), aligned(4)));
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

// From side×side pixels that begin `margin` before each tile to its 36 places; beyond the border everything is 0.
template <int64_t side, int64_t margin, Map map>
void to_places(const float* pixels, float* places, const Images& size) {
  for (int64_t tile = 0; tile < size.tiles(); ++tile) {
    const float* image = pixels + tile / size.tiles_of_one() * size.height * size.width * size.channels;
    const int64_t top = tile / size.columns() % size.rows() * TILE - margin;
    const int64_t left = tile % size.columns() * TILE - margin;
    for (int64_t c = 0; c < size.channels; c += LANES) {
      Vector half[WINDOW][side], in[side], out[WINDOW];
      for (int64_t x = 0; x < side; ++x) {
        const bool inside = left + x >= 0 && left + x < size.width;
        for (int64_t y = 0; y < side; ++y) {
          const bool there = inside && top + y >= 0 && top + y < size.height;
          in[y] = there ? load(image + ((top + y) * size.width + left + x) * size.channels + c) : Vector{};
        }
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

// Back from 36 places to the pixels; where windows overlap (side above 4) they are added up, and pixels begin at 0.
template <int64_t side, int64_t margin, Map map>
void from_places(const float* places, float* pixels, const Images& size) {
  for (int64_t tile = 0; tile < size.tiles(); ++tile) {
    float* image = pixels + tile / size.tiles_of_one() * size.height * size.width * size.channels;
    const int64_t top = tile / size.columns() % size.rows() * TILE - margin;
    const int64_t left = tile % size.columns() * TILE - margin;
    for (int64_t c = 0; c < size.channels; c += LANES) {
      Vector half[side][WINDOW], in[WINDOW], out[side];
      for (int64_t x = 0; x < WINDOW; ++x) {
        for (int64_t y = 0; y < WINDOW; ++y)
          in[y] = load(places + ((y * WINDOW + x) * size.tiles() + tile) * size.channels + c);
        map(in, out);
        for (int64_t y = 0; y < side; ++y) half[y][x] = out[y];
      }
      for (int64_t y = std::max<int64_t>(0, -top); y < std::min(side, size.height - top); ++y) {
        map(half[y], out);
        for (int64_t x = std::max<int64_t>(0, -left); x < std::min(side, size.width - left); ++x) {
          float* at = image + ((top + y) * size.width + left + x) * size.channels + c;
          store(at, side > TILE ? load(at) + out[x] : out[x]);
        }
      }
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

// Shapes and layouts are checked in Python: x [N, C, H, W] and weight [K, C, 3, 3] channels_last, C and K multiples of 8.
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight) {
  const int64_t outputs = weight.size(0);
  const Images in{x.size(0), x.size(2), x.size(3), x.size(1)};
  const at::Tensor u = places_of(weight);
  const at::Tensor y = at::empty({in.n, outputs, in.height, in.width}, x.options(), at::MemoryFormat::ChannelsLast);
  const Room inputs_room(in, in.channels, x.options()), outputs_room(in, outputs, x.options());
  in_turns(in, [&](int64_t first, int64_t n) {
    const Images source{n, in.height, in.width, in.channels}, target{n, in.height, in.width, outputs};
    const int64_t pixels = first * in.height * in.width;
    at::Tensor v = inputs_room.places(source.tiles()), product = outputs_room.places(source.tiles());
    to_places<WINDOW, 1, map_b>(x.data_ptr<float>() + pixels * in.channels, v.data_ptr<float>(), source);
    at::bmm_out(product, v, u);
    from_places<TILE, 0, map_a>(product.data_ptr<float>(), y.data_ptr<float>() + pixels * outputs, target);
  });
  return y;
}

// Gradients of x and weight from the gradient of the output.
std::tuple<at::Tensor, at::Tensor> convolve_backward(const at::Tensor& gradient, const at::Tensor& x,
                                                     const at::Tensor& weight) {
  const int64_t outputs = weight.size(0);
  const Images in{x.size(0), x.size(2), x.size(3), x.size(1)};
  const at::Tensor u_t = places_of(weight).transpose(1, 2).contiguous();
  const at::Tensor of_x = at::zeros_like(x);
  std::vector<at::Tensor> sums(at::get_num_threads());  // of each thread: turns are shared out the same way every time
  const Room inputs_room(in, in.channels, x.options()), outputs_room(in, outputs, x.options());
  in_turns(in, [&](int64_t first, int64_t n) {
    const Images source{n, in.height, in.width, in.channels}, target{n, in.height, in.width, outputs};
    const int64_t pixels = first * in.height * in.width;
    at::Tensor v = inputs_room.places(source.tiles());
    const at::Tensor of_product = outputs_room.places(source.tiles());
    to_places<WINDOW, 1, map_b>(x.data_ptr<float>() + pixels * in.channels, v.data_ptr<float>(), source);
    to_places<TILE, 0, map_a_t>(gradient.data_ptr<float>() + pixels * outputs, of_product.data_ptr<float>(), target);
    at::Tensor& of_u = sums[at::get_thread_num()];
    if (!of_u.defined()) of_u = at::zeros({PLACES, in.channels, outputs}, x.options());
    of_u.baddbmm_(v.transpose(1, 2), of_product);
    at::bmm_out(v, of_product, u_t);  // the gradient of v, in its place
    from_places<WINDOW, 1, map_b_t>(v.data_ptr<float>(), of_x.data_ptr<float>() + pixels * in.channels, source);
  });
  at::Tensor of_u = at::zeros({PLACES, in.channels, outputs}, x.options());
  for (const at::Tensor& sum : sums)
    if (sum.defined()) of_u += sum;
  const at::Tensor flat = at::mm(weight_map(weight).t(), of_u.view({PLACES, in.channels * outputs}));
  return {of_x, flat.view({3, 3, in.channels, outputs}).permute({3, 2, 0, 1}).contiguous(at::MemoryFormat::ChannelsLast)};
}

}  // namespace

TORCH_LIBRARY(pars_winograd, m) {
  m.def("convolve(Tensor x, Tensor weight) -> Tensor");
  m.def("convolve_backward(Tensor gradient, Tensor x, Tensor weight) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(pars_winograd, CPU, m) {
  m.impl("convolve", &convolve);
  m.impl("convolve_backward", &convolve_backward);
}
