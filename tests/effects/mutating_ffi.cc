// Two handlers of XLA's typed FFI: one overwrites its first operand behind XLA's back, one does not.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error DoubleInPlace(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> y, ffi::ResultBuffer<ffi::F32> sum) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    sum->typed_data()[i] = x.typed_data()[i] + y.typed_data()[i];
    x.typed_data()[i] *= 2;
  }
  return ffi::Error::Success();
}

static ffi::Error Add(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> y, ffi::ResultBuffer<ffi::F32> sum) {
  for (size_t i = 0; i < x.element_count(); ++i) sum->typed_data()[i] = x.typed_data()[i] + y.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(ligerdiag_double_in_place, DoubleInPlace,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(ligerdiag_add, Add,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
