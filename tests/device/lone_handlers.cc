// Handlers of XLA's typed FFI, each of which does one thing right or wrong with its buffers.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::ResultBuffer<ffi::F32>;
using Integers = ffi::Buffer<ffi::S32>;

// out = 2 x
static ffi::Error Double(Floats x, Result out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = 2 * x.typed_data()[i];
  return ffi::Error::Success();
}

// out = x; x = 2 x
static ffi::Error Overwrite(Floats x, Result out) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    out->typed_data()[i] = x.typed_data()[i];
    x.typed_data()[i] *= 2;
  }
  return ffi::Error::Success();
}

// out = x; the second half of x becomes 0
static ffi::Error ClearHalf(Floats x, Result out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = x.typed_data()[i];
  for (size_t i = x.element_count() / 2; i < x.element_count(); ++i) x.typed_data()[i] = 0;
  return ffi::Error::Success();
}

// The first half of out = the first half of x
static ffi::Error CopyHalf(Floats x, Result out) {
  for (size_t i = 0; i < x.element_count() / 2; ++i) out->typed_data()[i] = x.typed_data()[i];
  return ffi::Error::Success();
}

// out = x + y, with y unread past its first element
static ffi::Error AddFirst(Floats x, Floats y, Result out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = x.typed_data()[i] + y.typed_data()[0];
  return ffi::Error::Success();
}

// out = x; y is not used
static ffi::Error Ignore(Floats x, Floats y, Result out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = x.typed_data()[i];
  return ffi::Error::Success();
}

// out = x, and one element is stored behind x
static ffi::Error Overrun(Floats x, Result out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = x.typed_data()[i];
  x.typed_data()[x.element_count()] = 1;
  return ffi::Error::Success();
}

// out[i] = x[i + 1], with one element loaded from behind x
static ffi::Error Overread(Floats x, Result out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = x.typed_data()[i + 1];
  return ffi::Error::Success();
}

// out = out + x
static ffi::Error Accumulate(Floats x, Result out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] += x.typed_data()[i];
  return ffi::Error::Success();
}

// out[i] = x[index[i]]
static ffi::Error Gather(Floats x, Integers index, Result out) {
  for (size_t i = 0; i < index.element_count(); ++i) out->typed_data()[i] = x.typed_data()[index.typed_data()[i]];
  return ffi::Error::Success();
}

// out = x, refused unless index is 0 1 2 ...
static ffi::Error Sorted(Floats x, Integers index, Result out) {
  for (size_t i = 0; i < index.element_count(); ++i) {
    if (index.typed_data()[i] != static_cast<int>(i)) return ffi::Error::InvalidArgument("index is not sorted");
    out->typed_data()[i] = x.typed_data()[i];
  }
  return ffi::Error::Success();
}

// always refused
static ffi::Error Refuse(Floats x, Result out) { return ffi::Error::InvalidArgument("refused"); }

#define ONE ffi::Ffi::Bind().Arg<Floats>().Ret<Floats>()
#define TWO ffi::Ffi::Bind().Arg<Floats>().Arg<Floats>().Ret<Floats>()
#define INDEXED ffi::Ffi::Bind().Arg<Floats>().Arg<Integers>().Ret<Floats>()
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_double, Double, ONE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_overwrite, Overwrite, ONE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_clear_half, ClearHalf, ONE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_copy_half, CopyHalf, ONE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_add_first, AddFirst, TWO);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_ignore, Ignore, TWO);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_overrun, Overrun, ONE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_overread, Overread, ONE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_accumulate, Accumulate, ONE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_gather, Gather, INDEXED);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_sorted, Sorted, INDEXED);
XLA_FFI_DEFINE_HANDLER_SYMBOL(lone_refuse, Refuse, ONE);
