// The types of a struct's fields, in order. So a problem's argument list is written once, as its struct.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace omegamax {

// Stands for a field of any type, to count how many a struct has.
struct AnyField {
  template <class F>
  operator F() const;
};
template <std::size_t>
using Another = AnyField;

template <class Struct, class Numbers, class = void>
struct TakesFields : std::false_type {};
template <class Struct, std::size_t... i>
struct TakesFields<Struct, std::index_sequence<i...>, std::void_t<decltype(Struct{Another<i>{}...})>> : std::true_type {
};

constexpr std::size_t kMostFields = 14;
template <class Struct, std::size_t n = kMostFields>
constexpr std::size_t count_fields() {
  if constexpr (TakesFields<Struct, std::make_index_sequence<n>>::value) return n;
  else return count_fields<Struct, n - 1>();
}

// Never called: the type that it returns is a tuple of the types of all fields.
template <class Struct>
auto take_apart(Struct& s) {
  constexpr std::size_t n = count_fields<Struct>();
#define OMEGAMAX_TAKE(number, ...)       \
  if constexpr (n == number) {           \
    auto& [__VA_ARGS__] = s;             \
    return std::make_tuple(__VA_ARGS__); \
  }
  OMEGAMAX_TAKE(2, a, b)
  OMEGAMAX_TAKE(3, a, b, c)
  OMEGAMAX_TAKE(4, a, b, c, d)
  OMEGAMAX_TAKE(5, a, b, c, d, e)
  OMEGAMAX_TAKE(6, a, b, c, d, e, f)
  OMEGAMAX_TAKE(7, a, b, c, d, e, f, g)
  OMEGAMAX_TAKE(8, a, b, c, d, e, f, g, h)
  OMEGAMAX_TAKE(9, a, b, c, d, e, f, g, h, i)
  OMEGAMAX_TAKE(10, a, b, c, d, e, f, g, h, i, j)
  OMEGAMAX_TAKE(11, a, b, c, d, e, f, g, h, i, j, k)
  OMEGAMAX_TAKE(12, a, b, c, d, e, f, g, h, i, j, k, l)
  OMEGAMAX_TAKE(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  OMEGAMAX_TAKE(14, a, b, c, d, e, f, g, h, i, j, k, l, m, o)
#undef OMEGAMAX_TAKE
}

template <class Struct>
using Fields = decltype(take_apart(std::declval<Struct&>()));

}  // namespace omegamax
