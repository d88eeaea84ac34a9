// The mass of every span of a sequence of tags: the probability to begin, times those to go on, times that to end.
#pragma once

#include "core/buffer.hpp"
#include "core/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

// Spans that begin at one place and grow by one place a step. `unfinished` has a number for each type and tag of the
// type.
template <class T>
class GrowingSpans {
 public:
  template <class Problem>
  GrowingSpans(const Problem& p, std::int64_t item)
      : n_places(p.n_places), types(p.n_types), width(p.width), begin_(p.begin + item * n_places * types * width),
        go_on_(p.go_on + item * n_places * types * width * width), end_(p.end + item * n_places * types * width) {}

  const T* begin(std::int64_t place) const { return begin_ + place * types * width; }
  const T* go_on(std::int64_t place) const { return go_on_ + place * types * width * width; }
  const T* end(std::int64_t place) const { return end_ + place * types * width; }

  // Writes how much goes on to `place`; returns whether anything does. NaN goes on.
  bool step(std::int64_t place, const T* unfinished, T* next) const {
    const T* matrix = go_on(place);
    bool any = false;
    for (std::int64_t t = 0; t < types; ++t, matrix += width * width, unfinished += width, next += width) {
      for (std::int64_t j = 0; j < width; ++j) next[j] = 0;
      for (std::int64_t i = 0; i < width; ++i)
        for (std::int64_t j = 0; j < width; ++j) next[j] += unfinished[i] * matrix[i * width + j];
      for (std::int64_t j = 0; j < width; ++j) any |= next[j] != T(0);
    }
    return any;
  }

  std::int64_t n_places, types, width;

 private:
  const T *begin_, *go_on_, *end_;
};

}  // namespace chains

template <class T>
void run(const SpanMass<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t states = p.n_types * p.width;
  Buffer buffer(2 * Buffer::size<T>(states));
  T *unfinished = buffer.take<T>(states), *next = buffer.take<T>(states);
  for (std::int64_t item = begin; item < end; ++item) {
    const chains::GrowingSpans<T> spans(p, item);
    T* mass = p.mass + item * p.n_places * p.max_length * p.n_types;
    for (std::int64_t place = 0; place < p.n_places; ++place) {
      for (std::int64_t s = 0; s < states; ++s) unfinished[s] = spans.begin(place)[s];
      bool any = true;
      for (std::int64_t length = 0; length < p.max_length; ++length, mass += p.n_types) {
        const std::int64_t last = place + length;
        any = any && last < p.n_places;
        if (any && length > 0) {
          any = spans.step(last, unfinished, next);
          T* const swap = unfinished;
          unfinished = next;
          next = swap;
        }
        for (std::int64_t t = 0; t < p.n_types; ++t) {
          T sum = 0;
          for (std::int64_t i = t * p.width; any && i < (t + 1) * p.width; ++i)
            sum += unfinished[i] * spans.end(last)[i];
          mass[t] = sum;
        }
      }
    }
  }
}

template <class T>
void run(const SpanMassGradient<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t states = p.n_types * p.width, squares = states * p.width;
  Buffer buffer(Buffer::size<T>(p.max_length * states) + 2 * Buffer::size<T>(states));
  T *unfinished = buffer.take<T>(p.max_length * states), *grad = buffer.take<T>(states),
    *before = buffer.take<T>(states);
  for (std::int64_t item = begin; item < end; ++item) {
    const chains::GrowingSpans<T> spans(p, item);
    T* const to_begin = p.grad_begin + item * p.n_places * states;
    T* const to_go_on = p.grad_go_on + item * p.n_places * squares;
    T* const to_end = p.grad_end + item * p.n_places * states;
    for (std::int64_t i = 0; i < p.n_places * states; ++i) to_end[i] = 0;
    for (std::int64_t i = 0; i < p.n_places * squares; ++i) to_go_on[i] = 0;
    for (std::int64_t place = 0; place < p.n_places; ++place) {
      const T* grad_mass = p.grad + (item * p.n_places + place) * p.max_length * p.n_types;
      const std::int64_t room = p.n_places - place;
      std::int64_t length = p.max_length < room ? p.max_length : room;
      for (std::int64_t s = 0; s < states; ++s) unfinished[s] = spans.begin(place)[s];
      for (std::int64_t l = 1; l < length; ++l)
        spans.step(place + l, unfinished + (l - 1) * states, unfinished + l * states);
      for (std::int64_t s = 0; s < states; ++s) grad[s] = 0;
      while (length-- > 0) {  // `grad` is that of what is unfinished at the last place of the span
        const std::int64_t last = place + length;
        const T* here = unfinished + length * states;
        for (std::int64_t t = 0, s = 0; t < p.n_types; ++t) {
          const T of_mass = grad_mass[length * p.n_types + t];
          for (std::int64_t i = 0; i < p.width; ++i, ++s) {
            grad[s] += of_mass * spans.end(last)[s];
            to_end[last * states + s] += of_mass * here[s];
          }
        }
        if (length == 0) break;
        const T* from = here - states;
        for (std::int64_t t = 0; t < p.n_types; ++t)
          for (std::int64_t i = 0; i < p.width; ++i) {
            const std::int64_t s = t * p.width + i, row = s * p.width;
            T sum = 0;
            for (std::int64_t j = 0; j < p.width; ++j) {
              const T of_next = grad[t * p.width + j];
              sum += of_next * spans.go_on(last)[row + j];
              to_go_on[last * squares + row + j] += from[s] * of_next;
            }
            before[s] = sum;
          }
        T* const swap = grad;
        grad = before;
        before = swap;
      }
      for (std::int64_t s = 0; s < states; ++s) to_begin[place * states + s] = grad[s];
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
