from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AutotuneResults(_message.Message):
    __slots__ = ("version", "results")
    class Entry(_message.Message):
        __slots__ = ("device", "hlo", "version")
        DEVICE_FIELD_NUMBER: _ClassVar[int]
        HLO_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        device: str
        hlo: str
        version: int
        def __init__(self, device: _Optional[str] = ..., hlo: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    version: int
    results: _containers.RepeatedCompositeFieldContainer[AutotuneResults.Entry]
    def __init__(self, version: _Optional[int] = ..., results: _Optional[_Iterable[_Union[AutotuneResults.Entry, _Mapping]]] = ...) -> None: ...

class AutotuneCache(_message.Message):
    __slots__ = ("device_scope", "entries")
    class TargetKey(_message.Message):
        __slots__ = ("device", "hlo_fingerprint")
        DEVICE_FIELD_NUMBER: _ClassVar[int]
        HLO_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
        device: str
        hlo_fingerprint: str
        def __init__(self, device: _Optional[str] = ..., hlo_fingerprint: _Optional[str] = ...) -> None: ...
    class Key(_message.Message):
        __slots__ = ("target",)
        TARGET_FIELD_NUMBER: _ClassVar[int]
        target: AutotuneCache.TargetKey
        def __init__(self, target: _Optional[_Union[AutotuneCache.TargetKey, _Mapping]] = ...) -> None: ...
    class Entry(_message.Message):
        __slots__ = ("key",)
        KEY_FIELD_NUMBER: _ClassVar[int]
        key: AutotuneCache.Key
        def __init__(self, key: _Optional[_Union[AutotuneCache.Key, _Mapping]] = ...) -> None: ...
    DEVICE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    device_scope: str
    entries: _containers.RepeatedCompositeFieldContainer[AutotuneCache.Entry]
    def __init__(self, device_scope: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[AutotuneCache.Entry, _Mapping]]] = ...) -> None: ...
