package zapcodec

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// cells writes a plain message whose root holds the given words.
func cells(t *testing.T, words ...uint64) Object {
	t.Helper()
	b := Build(nil, Version1, 0)
	o := b.Object(8 * len(words))
	for i, w := range words {
		o.SetU64(8*i, w)
	}
	return root(t, message(t, &b, o), 8*len(words))
}

// message finishes a message and opens it.
func message(t *testing.T, b *Builder, root ObjectBuilder) Message {
	t.Helper()
	frame, err := b.Finish(root)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(frame)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// rel makes a cell of a distance and a length.
func rel(distance int32, n uint32) uint64 { return uint64(uint32(distance)) | uint64(n)<<32 }

func TestCellsThatLeadOutsideAreRefusedByKind(t *testing.T) {
	text := func(o Object) error { _, err := o.Bytes(0); return err }
	list := func(o Object) error { _, err := o.List(0, 4); return err }
	varList := func(o Object) error { _, err := o.VarList(0); return err }
	object := func(o Object) error { _, _, err := o.Object(0, 8); return err }
	for name, c := range map[string]struct {
		cell uint64
		read func(Object) error
		want error
	}{
		"text up to the end":             {rel(16, 8), text, nil},
		"text of no bytes at the end":    {rel(24, 0), text, nil},
		"text a byte too long":           {rel(16, 9), text, ErrPointer},
		"text backward is text far away": {rel(-8, 1), text, ErrPointer},
		"text null with a length":        {rel(0, 1), text, ErrNull},
		"a list up to the end":           {rel(16, 2), list, nil},
		"a list an element too long":     {rel(16, 3), list, ErrPointer},
		"a list of a product that wraps": {rel(16, 1<<31), list, ErrPointer},
		"a list inside the header":       {rel(-8, 1), list, ErrPointer},
		"a list before the message":      {rel(-24, 1), list, ErrPointer},
		"a list beyond the end":          {rel(32, 1), list, ErrPointer},
		"a list that is not aligned":     {rel(12, 1), list, ErrAlign},
		"a list null with a count":       {rel(0, 1), list, ErrNull},
		"a null list":                    {rel(0, 0), list, nil},
		"elements that end too late":     {rel(8, 1), varList, ErrPointer},
		"elements by the billion":        {rel(8, 1<<32-1), varList, ErrPointer},
		"an element without its length":  {rel(24, 1), varList, ErrPointer},
		"an object that fits":            {rel(16, 0), object, nil},
		"an object that does not":        {rel(17, 0), object, ErrFixed},
		"an object inside the header":    {rel(-8, 0), object, ErrPointer},
		"an object before the message":   {rel(-17, 0), object, ErrPointer},
		"an object beyond the end":       {rel(25, 0), object, ErrPointer},
	} {
		o := cells(t, c.cell, 0xffffffff, 0)
		if err := c.read(o); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestObjectsThatPointAtEachOtherEnd(t *testing.T) {
	b := Build(nil, Version1, 0)
	first, second := b.Object(8), b.Object(8)
	first.SetObject(0, second)
	second.SetObject(0, first)
	o, steps := root(t, message(t, &b, first), 8), 0
	var err error
	for ; err == nil; steps++ {
		o, _, err = o.Object(0, 8)
	}
	if !errors.Is(err, ErrDepth) || steps != MaxDepth+1 {
		t.Errorf("after %d steps: %v", steps, err)
	}
}

func TestAListWhoseElementsPointBackAtItEnds(t *testing.T) {
	b := Build(nil, Version1, 0)
	l := b.VarList()
	element := l.Object(8)
	ref := l.Done()
	element.SetList(0, ref)
	o := b.Object(8)
	o.SetList(0, ref)
	at, steps := root(t, message(t, &b, o), 8), 0
	var err error
	for ; err == nil && steps <= 2*MaxDepth; steps++ {
		var list VarList
		if list, err = at.VarList(0); err == nil && list.Next() {
			at, err = list.Object(8)
		}
	}
	if !errors.Is(err, ErrDepth) {
		t.Errorf("after %d steps: %v", steps, err)
	}
}

func TestAnElementHoldsNoObjectLargerThanItself(t *testing.T) {
	b := Build(nil, Version1, 0)
	ref := AppendBytesList(&b, []string{"1234567"})
	o := b.Object(8)
	o.SetList(0, ref)
	l, err := root(t, message(t, &b, o), 8).VarList(0)
	if err != nil || !l.Next() {
		t.Fatal(err)
	}
	if _, err := l.Object(8); !errors.Is(err, ErrFixed) {
		t.Errorf("%v", err)
	}
}

func TestOpenFirstLeavesWhatFollows(t *testing.T) {
	b := Build(nil, Version1, 0)
	frame, err := b.Finish(b.Object(8))
	if err != nil {
		t.Fatal(err)
	}
	m, rest, err := OpenFirst(append(frame, "more"...))
	if err != nil || string(rest) != "more" || len(m.Bytes()) != 24 {
		t.Errorf("%d bytes, rest %q, %v", len(m.Bytes()), rest, err)
	}
	if _, _, err := OpenFirst(frame[:23]); !errors.Is(err, ErrSize) {
		t.Errorf("cut short: %v", err)
	}
}

func TestRootsOutOfPlaceAreRefused(t *testing.T) {
	b := Build(nil, Version1, 0)
	frame, err := b.Finish(b.Object(16))
	if err != nil {
		t.Fatal(err)
	}
	for at, ok := range map[uint32]bool{0: false, 8: false, 15: false, 16: true, 17: false, 20: false, 24: true, 32: false, 1 << 31: false} {
		binary.LittleEndian.PutUint32(frame[8:], at)
		m, err := Open(frame)
		if ok != (err == nil) || !ok && !errors.Is(err, ErrRoot) {
			t.Errorf("root at %d: %v", at, err)
		}
		if err == nil {
			if _, err := m.Root(17); !errors.Is(err, ErrFixed) {
				t.Errorf("root at %d with 17 bytes: %v", at, err)
			}
		}
	}
	if frame, err = b.Finish(b.Object(0)); !errors.Is(err, ErrRoot) {
		t.Errorf("a root of no bytes at the end was written: %x, %v", frame, err)
	}
}

func TestAppendMessageRefusesWhatOpenRefuses(t *testing.T) {
	frame, err := AppendMessage([]byte("x"), Header{Version: 1, Root: 16}, make([]byte, 8))
	if err != nil || len(frame) != 25 {
		t.Fatalf("%x, %v", frame, err)
	}
	if _, err := Open(frame[1:]); err != nil {
		t.Error(err)
	}
	for want, h := range map[error]Header{
		ErrVersion:  {Version: 3, Root: 16},
		ErrFlags:    {Version: 1, Flags: 2, Root: 16},
		ErrRoot:     {Version: 1, Root: 24},
		ErrSize:     {Version: 1, Root: 16, Size: 25},
		ErrTrailing: {Version: 1, Root: 16, Size: 23},
	} {
		if _, err := AppendMessage(nil, h, make([]byte, 8)); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", h, err, want)
		}
	}
}

func TestFrameErrorsAreOneLineAndKeepValuesSecret(t *testing.T) {
	var v RequestView
	secret := "token-of-a-user\r\n"
	err := v.Parse(rawRequest(t, "GET", "/", "HTTP/1.1", [][2]string{{"Authorization", secret}}, nil, ""))
	if err == nil || strings.Contains(err.Error(), "token-of") || strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("%q", err)
	}
	var fe *FrameError
	if !errors.As(err, &fe) || fe.Field != "headers" || fe.Offset < HeaderLen || (&FrameError{}).Unwrap() != nil {
		t.Errorf("%#v", err)
	}
}
