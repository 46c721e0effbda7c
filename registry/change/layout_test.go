package change

import (
	"testing"
	"unsafe"
)

// The layout that record's comment promises.
func TestRecordFitsFiveCacheLines(t *testing.T) {
	if n := unsafe.Sizeof(record{}); n > 320 {
		t.Errorf("a record takes %d bytes, more than five cache lines", n)
	}
	var r record
	if off := unsafe.Offsetof(r.pend) + unsafe.Offsetof(r.pend.one); off != 128 {
		t.Errorf("the first pending item stands at %d, not at the start of the third cache line", off)
	}
}
