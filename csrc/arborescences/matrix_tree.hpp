// Sums over all arborescences: the log-partition, the probabilities of arcs, and their derivative.
//
// The matrix-tree theorem gives the sum as a determinant and the probabilities as differences of entries of an inverse
// (Tutte 1948; Koo, Globerson, Carreras & Collins 2007). Neither is used here: determinants lose all digits when the
// graph is close to a cycle that no arc enters. State reduction (state_reduction.hpp) adds, multiplies and divides
// positive numbers only. It runs on plain doubles as long as no product of two of them can leave their range, which is
// looked at in every step, and on logarithms otherwise; both are exact to rounding, so that there is no condition
// number to judge.
//
// The probability that h is the head of m needs the graph with m as the last word left:
//
//     mu[h, m] = w[h, m] u[h] / sum over h of w[h, m] u[h],      u[h] = P(the walk from h reaches the root before m)
//
// after elimination of all others (all_but_one.hpp): about 1.3 n^3 multiplications for all probabilities, as many as
// for the inverse. Along a direction the same code runs on pairs (a number, its derivative).
#pragma once

#include "arborescences/all_but_one.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
inline void fill_item(T* to, std::int64_t count, T value) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = value;
}

// u[h, m] for all pairs: rows of heads, columns of words. A word that was eliminated goes where its p says, so its row
// is the mean of the rows of those that were left: u[k, .] = sum over h of p_k[h] u[h, .], with u[0, m] = 1, u[m, m] =
// 0.
template <class Field>
class Reaching {
 public:
  using Number = typename Field::template Of<double>;
  using Numbers = typename Field::template Of<Doubles>;

  // Rows are longer by a vector: what is computed beyond the columns in hand lands in columns that come later.
  explicit Reaching(std::int64_t words) : memory_(Field::kPlanes * (words + 1) * stride_of(words)), rows_(words + 1) {}

  void start(std::int64_t words) {
    stride_ = stride_of(words);
    plane_ = (words + 1) * stride_;
    for (std::int64_t i = 0; i < plane_; ++i) memory_.get()[i] = Field::kZero;
    for (std::int64_t i = plane_; i < Field::kPlanes * plane_; ++i) memory_.get()[i] = 0;
  }

  bool leaf(const AllButOne<Field>&, int, std::int64_t word) {
    put(row(0) + word, plane_, Field::constant(Field::kOne));
    return true;
  }

  void settled(const AllButOne<Field>&, int) {}

  bool returned(const AllButOne<Field>& each, int level) {
    const Halved& at = each.level(level);
    const std::int64_t begin = at.first + at.turn;
    Extent extent;
    if (!Field::kLog)
      for (std::int64_t h = 0; h <= at.keep; ++h) add(extent, row(at.word(h)) + begin, at.keep);
    for (std::int64_t h = 0; h <= at.size; ++h) rows_.get()[h] = row(at.word(h));
    for (std::int64_t k = at.keep + 1; k <= at.size; ++k) {
      constexpr std::int64_t four = 4 * kLanes<double>;
      std::int64_t m = 0;
      for (; m + four - kLanes<double> < at.keep; m += four) mix<4>(at, k, begin + m);
      for (; m < at.keep; m += kLanes<double>) mix<1>(at, k, begin + m);
      const double* to = row(at.word(k)) + begin;
      if (!Field::kLog) {
        if (!each.extent(level, k).allows(extent)) return false;
        add(extent, to, at.keep);
      }
      // Before the top is found, the root cannot be reached: its share is zero to first order.
      if (k == at.crown)
        for (std::int64_t m = 0; m < at.keep; ++m) put(row(0) + begin + m, plane_, Field::constant(Field::kZero));
    }
    return true;
  }

  // Probabilities (or their derivatives) from the weights; false where the numbers leave the range of the field.
  template <class T>
  bool write(const Weights& w, std::int64_t words, T* out, std::int64_t size) {
    for (std::int64_t m = 0; m <= words; m += kLanes<double>) {
      Sum<Field> sum;
      for (std::int64_t h = 0; h <= words; ++h) {
        const Numbers here =
            Field::times(number_at(w.row(h) + m, w.plane, Numbers{}), number_at(row(h) + m, plane_, Numbers{}));
        put(row(h) + m, plane_, here);
        sum.see(here);
      }
      for (std::int64_t h = 0; h <= words; ++h) sum.add(number_at(row(h) + m, plane_, Numbers{}));
      const Numbers total = sum.result();
      for (std::int64_t i = m == 0 ? 1 : 0; i < kLanes<double> && m + i <= words; ++i)
        if (!Field::kLog && !(total.x[i] > kLeast && total.x[i] < kMost)) return false;
      for (std::int64_t h = 0; h <= words; ++h) {
        double* here = row(h) + m;
        const Numbers product = number_at(here, plane_, Numbers{});
        store(here, number(Field::over(product, total), product.x == Field::kZero - Doubles{}));
      }
    }
    for (std::int64_t h = 0; h <= words; ++h)
      for (std::int64_t m = 1; m <= words; ++m) out[h * size + m] = static_cast<T>(row(h)[m]);
    return true;
  }

 private:
  static std::int64_t stride_of(std::int64_t words) { return whole_vectors(words + 1) + 8; }
  double* row(std::int64_t word) const { return memory_.get() + word * stride_; }

  template <class Mask>
  static Doubles number(Single<Doubles> a, Mask none) {
    return none ? Doubles{} : Field::kLog ? exp_of<Doubles>(a.x) : a.x;
  }
  template <class Mask>
  static Doubles number(Pair<Doubles> a, Mask none) {
    const Doubles rate = Field::kLog ? exp_of<Doubles>(a.x) * a.rate : a.rate;
    return none ? Doubles{} : rate;
  }

  static void add(Extent& extent, const double* x, std::int64_t count) {
    std::int64_t i = count / kLanes<double> * kLanes<double>;
    extent.add(x, i);
    if (i < count) {
      double tail[kLanes<double>];
      store(tail, load_some<double>(x + i, count - i, 0));
      extent.add(tail, kLanes<double>);
    }
  }

  // u[k, .] for `Vectors` vectors of columns.
  template <int Vectors>
  void mix(const Halved& at, std::int64_t k, std::int64_t column) const {
    const double* p = at.w.row(k);
    Sum<Field> totals[Vectors];
    for (int round = Sum<Field>::kTwice ? 0 : 1; round < 2; ++round)
      for (std::int64_t h = 0; h < k; ++h) {
        const Numbers share = everywhere(number_at(p + h, at.w.plane, Number{}));
        const double* from = rows_.get()[h] + column;
        for (int v = 0; v < Vectors; ++v, from += kLanes<double>) {
          const Numbers term = Field::times(share, number_at(from, plane_, Numbers{}));
          if (round == 0) totals[v].see(term);
          else totals[v].add(term);
        }
      }
    for (int v = 0; v < Vectors; ++v) put(rows_.get()[k] + column + v * kLanes<double>, plane_, totals[v].result());
  }

  Scratch<double> memory_;
  Scratch<double*> rows_;  // in the order of the level in hand
  std::int64_t stride_ = 0, plane_ = 0;
};

// Probabilities (or derivatives) in one field, with what it needs for items of up to `words` words.
template <class Field>
class Probabilities {
 public:
  explicit Probabilities(std::int64_t words)
      : memory_(Field::kPlanes * Weights::plane_of(words)), each_(words), reaching_(words) {}

  template <class T>
  bool write(const LogWeights& logs, bool single_root, const T* direction, T* out, std::int64_t size) {
    const Weights w = logs.weights<Field>(memory_.get(), direction, size);
    reaching_.start(logs.words());
    return each_.run(w, logs.words(), !single_root, reaching_) && reaching_.write(w, logs.words(), out, size);
  }

 private:
  Scratch<double> memory_;
  AllButOne<Field> each_;
  Reaching<Field> reaching_;
};

template <class LinearField, class LogField, class T>
inline void write_probabilities(const T* scores, const std::int64_t* lengths, const T* value, const T* direction,
                                T* out, std::int64_t size, bool single_root, std::int64_t begin, std::int64_t end) {
  const WithoutDenormals quick;  // sums of numbers that far apart do not change
  LogWeights logs(size - 1);
  Probabilities<LinearField> linear(size - 1);
  Probabilities<LogField> logarithmic(size - 1);
  const std::int64_t each = size * size;
  for (std::int64_t item = begin; item < end; ++item) {
    const T* along = direction == nullptr ? nullptr : direction + item * each;
    T* to = out + item * each;
    const Kind kind = logs.read(scores + item * each, size, lengths[item], single_root);
    fill_item<T>(to, each, kind == Kind::kNotNumbers ? kNaN<T> : T(0));
    if (kind != Kind::kUsual || value[item] == -kInfinity<T>) continue;
    if (!(logs.fits_linear() && linear.write(logs, single_root, along, to, size)))
      logarithmic.write(logs, single_root, along, to, size);
  }
}

template <class Field>
inline bool log_total_of(const LogWeights& logs, bool single_root, const Reduction<Field>& reduction, double* memory,
                         double& found) {
  const Weights w = logs.weights<Field, double>(memory, nullptr, 0);
  return log_total(reduction, w, logs.words(), !single_root, found);
}

template <class T>
void run(const ArborescenceValue<T>& problem, std::int64_t begin, std::int64_t end) {
  const WithoutDenormals quick;  // sums of numbers that far apart do not change
  const std::int64_t size = problem.size;
  LogWeights logs(size - 1);
  const Scratch<double> memory(Weights::plane_of(size - 1));
  const Reduction<Linear> linear(size - 1);
  const Reduction<Log> logarithmic(size - 1);
  for (std::int64_t item = begin; item < end; ++item) {
    const bool single = problem.single_root != 0;
    double found = -kInfinity<double>;
    const Kind kind = logs.read(problem.scores + item * size * size, size, problem.lengths[item], single);
    if (kind == Kind::kNotNumbers) found = kNaN<double>;
    if (kind == Kind::kUsual) {
      if (!(logs.fits_linear() && log_total_of(logs, single, linear, memory.get(), found)))
        log_total_of(logs, single, logarithmic, memory.get(), found);
      found += logs.shifted_by();
    }
    problem.value[item] = static_cast<T>(found);
  }
}

template <class T>
void run(const ArborescenceMarginals<T>& problem, std::int64_t begin, std::int64_t end) {
  write_probabilities<Linear, Log, T>(problem.scores, problem.lengths, problem.value, nullptr, problem.marginals,
                                      problem.size, problem.single_root != 0, begin, end);
}

template <class T>
void run(const ArborescenceTangent<T>& problem, std::int64_t begin, std::int64_t end) {
  write_probabilities<LinearMoved, LogMoved, T>(problem.scores, problem.lengths, problem.value, problem.direction,
                                                problem.product, problem.size, problem.single_root != 0, begin, end);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
