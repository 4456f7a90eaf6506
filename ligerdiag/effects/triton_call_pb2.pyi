from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TritonKernel(_message.Message):
    __slots__ = ("kernel_name", "num_warps", "num_ctas", "shared_mem_bytes", "ptx", "ttir", "compute_capability")
    KERNEL_NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_WARPS_FIELD_NUMBER: _ClassVar[int]
    NUM_CTAS_FIELD_NUMBER: _ClassVar[int]
    SHARED_MEM_BYTES_FIELD_NUMBER: _ClassVar[int]
    PTX_FIELD_NUMBER: _ClassVar[int]
    TTIR_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    kernel_name: str
    num_warps: int
    num_ctas: int
    shared_mem_bytes: int
    ptx: str
    ttir: str
    compute_capability: int
    def __init__(self, kernel_name: _Optional[str] = ..., num_warps: _Optional[int] = ..., num_ctas: _Optional[int] = ..., shared_mem_bytes: _Optional[int] = ..., ptx: _Optional[str] = ..., ttir: _Optional[str] = ..., compute_capability: _Optional[int] = ...) -> None: ...

class TritonKernelCall(_message.Message):
    __slots__ = ("kernel", "grid_0", "grid_1", "grid_2", "parameters")
    class Parameter(_message.Message):
        __slots__ = ("array", "bool_", "i32", "u32", "i64", "u64", "f32", "f64", "tensor_descriptor")
        class Array(_message.Message):
            __slots__ = ("bytes_to_zero", "ptr_divisibility")
            BYTES_TO_ZERO_FIELD_NUMBER: _ClassVar[int]
            PTR_DIVISIBILITY_FIELD_NUMBER: _ClassVar[int]
            bytes_to_zero: int
            ptr_divisibility: int
            def __init__(self, bytes_to_zero: _Optional[int] = ..., ptr_divisibility: _Optional[int] = ...) -> None: ...
        class TensorDescriptor(_message.Message):
            __slots__ = ()
            def __init__(self) -> None: ...
        ARRAY_FIELD_NUMBER: _ClassVar[int]
        BOOL__FIELD_NUMBER: _ClassVar[int]
        I32_FIELD_NUMBER: _ClassVar[int]
        U32_FIELD_NUMBER: _ClassVar[int]
        I64_FIELD_NUMBER: _ClassVar[int]
        U64_FIELD_NUMBER: _ClassVar[int]
        F32_FIELD_NUMBER: _ClassVar[int]
        F64_FIELD_NUMBER: _ClassVar[int]
        TENSOR_DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
        array: TritonKernelCall.Parameter.Array
        bool_: bool
        i32: int
        u32: int
        i64: int
        u64: int
        f32: float
        f64: float
        tensor_descriptor: TritonKernelCall.Parameter.TensorDescriptor
        def __init__(self, array: _Optional[_Union[TritonKernelCall.Parameter.Array, _Mapping]] = ..., bool_: bool = ..., i32: _Optional[int] = ..., u32: _Optional[int] = ..., i64: _Optional[int] = ..., u64: _Optional[int] = ..., f32: _Optional[float] = ..., f64: _Optional[float] = ..., tensor_descriptor: _Optional[_Union[TritonKernelCall.Parameter.TensorDescriptor, _Mapping]] = ...) -> None: ...
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    GRID_0_FIELD_NUMBER: _ClassVar[int]
    GRID_1_FIELD_NUMBER: _ClassVar[int]
    GRID_2_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    kernel: TritonKernel
    grid_0: int
    grid_1: int
    grid_2: int
    parameters: _containers.RepeatedCompositeFieldContainer[TritonKernelCall.Parameter]
    def __init__(self, kernel: _Optional[_Union[TritonKernel, _Mapping]] = ..., grid_0: _Optional[int] = ..., grid_1: _Optional[int] = ..., grid_2: _Optional[int] = ..., parameters: _Optional[_Iterable[_Union[TritonKernelCall.Parameter, _Mapping]]] = ...) -> None: ...

class TritonAutotunedKernelCall(_message.Message):
    __slots__ = ("name", "configs", "input_output_aliases")
    class Config(_message.Message):
        __slots__ = ("kernel_call", "description")
        KERNEL_CALL_FIELD_NUMBER: _ClassVar[int]
        DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
        kernel_call: TritonKernelCall
        description: str
        def __init__(self, kernel_call: _Optional[_Union[TritonKernelCall, _Mapping]] = ..., description: _Optional[str] = ...) -> None: ...
    class InputOutputAlias(_message.Message):
        __slots__ = ("input_buffer_idx", "output_buffer_idx", "buffer_size_bytes")
        INPUT_BUFFER_IDX_FIELD_NUMBER: _ClassVar[int]
        OUTPUT_BUFFER_IDX_FIELD_NUMBER: _ClassVar[int]
        BUFFER_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
        input_buffer_idx: int
        output_buffer_idx: int
        buffer_size_bytes: int
        def __init__(self, input_buffer_idx: _Optional[int] = ..., output_buffer_idx: _Optional[int] = ..., buffer_size_bytes: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    INPUT_OUTPUT_ALIASES_FIELD_NUMBER: _ClassVar[int]
    name: str
    configs: _containers.RepeatedCompositeFieldContainer[TritonAutotunedKernelCall.Config]
    input_output_aliases: _containers.RepeatedCompositeFieldContainer[TritonAutotunedKernelCall.InputOutputAlias]
    def __init__(self, name: _Optional[str] = ..., configs: _Optional[_Iterable[_Union[TritonAutotunedKernelCall.Config, _Mapping]]] = ..., input_output_aliases: _Optional[_Iterable[_Union[TritonAutotunedKernelCall.InputOutputAlias, _Mapping]]] = ...) -> None: ...

class TritonAnyKernelCall(_message.Message):
    __slots__ = ("kernel_call", "autotuned_kernel_call", "metadata", "name")
    KERNEL_CALL_FIELD_NUMBER: _ClassVar[int]
    AUTOTUNED_KERNEL_CALL_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kernel_call: TritonKernelCall
    autotuned_kernel_call: TritonAutotunedKernelCall
    metadata: bytes
    name: str
    def __init__(self, kernel_call: _Optional[_Union[TritonKernelCall, _Mapping]] = ..., autotuned_kernel_call: _Optional[_Union[TritonAutotunedKernelCall, _Mapping]] = ..., metadata: _Optional[bytes] = ..., name: _Optional[str] = ...) -> None: ...
