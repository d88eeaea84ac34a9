// Sums over all arborescences: the log-partition, the probabilities of arcs, and their derivative.
//
// The matrix-tree theorem gives the sum as a determinant and the probabilities as differences of entries of an inverse
// (Tutte 1948; Koo, Globerson, Carreras & Collins 2007). Neither is computed so: determinants lose everything when the
// graph is close to a cycle that no arc enters. State reduction (state_reduction.hpp) adds, multiplies and divides
// positive numbers only. It runs on plain doubles as long as no product of two of them can leave their range, which is
// looked at in every step, and on logarithms otherwise; both are exact to rounding, so that there is no condition number
// to judge.
//
// The probability that h is the head of m needs the graph with m as the last word left:
//
//     mu[h, m] = w[h, m] / w'[0, m] * u[h],      u[h] = P(the walk from h reaches the root before m)
//
// where w'[0, m] is what elimination of all other words leaves (each_last.hpp): about 1.3 n^3 multiplications for all
// probabilities, as many as for the inverse. Along a direction the same code runs on pairs (a number, its derivative).
#pragma once

#include "each_last.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
inline void fill_item(T* to, std::int64_t count, T value) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = value;
}

// Writes column m of the probabilities, or of their derivative.
template <class Field, class T>
struct ProbabilityLeaf {
  using Number = typename Field::template Of<double>;
  const Weights& w;
  std::int64_t words, size, width;
  T* out;

  bool operator()(std::int64_t m, Number left, const double* u, bool crowned) {
    if (!Field::kLog && !(left.x > kLeast && left.x < kMost)) return false;
    for (std::int64_t h = crowned ? 1 : 0; h <= words; ++h) {
      const Number weight = Reduction<Field>::at(w.row(h) + m, w.plane), reached = Reduction<Field>::at(u + h, width);
      if (h == m || weight.x == Field::kZero || reached.x == Field::kZero) continue;
      out[h * size + m] = static_cast<T>(number(Field::times(weight, Field::over(reached, left))));
    }
    return true;
  }
  void settled(EachLast<Field>&, int, const Weights&, std::int64_t, std::int64_t, std::int64_t) {}

 private:
  static double number(Single<double> a) { return Field::kLog ? exp_of<double>(a.x) : a.x; }
  static double number(Pair<double> a) { return Field::kLog ? exp_of<double>(a.x) * a.rate : a.rate; }
};

// Probabilities (or derivatives) in one field, with what it needs for items of up to `words` words.
template <class Field>
class Probabilities {
 public:
  explicit Probabilities(std::int64_t words) : memory_(Field::kPlanes * Weights::plane_of(words)), each_(words) {}

  template <class T>
  bool write(const LogWeights& logs, bool single_root, const T* direction, T* out, std::int64_t size) {
    fill_item<T>(out, size * size, 0);
    const Weights w = logs.weights<Field>(memory_.get(), direction, size);
    ProbabilityLeaf<Field, T> leaf{w, logs.words(), size, each_.width(), out};
    return each_.run(w, logs.words(), !single_root, leaf);
  }

 private:
  Scratch<double> memory_;
  EachLast<Field> each_;
};

template <class LinearField, class LogField, class T>
inline void write_probabilities(const T* scores, const std::int64_t* lengths, const T* value, const T* direction,
                                T* out, std::int64_t size, bool single_root, std::int64_t begin, std::int64_t end) {
  LogWeights logs(size - 1);
  Probabilities<LinearField> linear(size - 1);
  Probabilities<LogField> logarithmic(size - 1);
  const std::int64_t each = size * size;
  for (std::int64_t item = begin; item < end; ++item) {
    const T* along = direction == nullptr ? nullptr : direction + item * each;
    T* to = out + item * each;
    const Kind kind = logs.read(scores + item * each, size, lengths[item], single_root);
    if (kind == Kind::kNotNumbers) fill_item<T>(to, each, kNaN<T>);
    else if (kind == Kind::kImpossible || value[item] == -kInfinity<T>) fill_item<T>(to, each, 0);
    else if (!(logs.fits_linear() && linear.write(logs, single_root, along, to, size)))
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
