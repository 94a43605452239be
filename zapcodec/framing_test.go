package zapcodec

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// framed is a stream of each framing, with what it carries.
func framed(t testing.TB) map[Framing]struct {
	stream []byte
	frames []Frame
} {
	t.Helper()
	m := map[Framing]struct {
		stream []byte
		frames []Frame
	}{}
	add := func(f Framing, tag byte, b []byte) {
		s := m[f]
		var err error
		if s.stream, err = f.AppendPrefix(s.stream, tag, len(b)); err != nil {
			t.Fatal(err)
		}
		s.stream = append(s.stream, b...)
		s.frames = append(s.frames, Frame{tag, b})
		m[f] = s
	}
	r := getRequest(pair("A", "1"))
	request, err := r.Append(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	big, _ := AppendData(nil, 0, bytes.Repeat([]byte("d"), 100_000))
	call, _ := AppendRPCRequest(nil, &RPCRequest{Method: 1, Promise: 2, Payload: []byte("p")})
	reply, _ := AppendRPCResponse(nil, &RPCResponse{Status: 200, Promise: 2})
	for _, b := range [][]byte{request, big, request} {
		add(FramingHTTP, 0, b)
	}
	add(FramingRPC, DirectionRequest, call)
	add(FramingRPC, DirectionResponse, reply)
	add(FramingRPC, DirectionStreamOpen, call)
	add(FramingRPC, DirectionStreamMessage, []byte{9, 0, 0, 0, 'x'})
	add(FramingRPC, DirectionStreamEnd, []byte{9, 0, 0, 0})
	add(FramingRPCOpen, TagCall, call)
	add(FramingRPCOpen, TagStream, call)
	add(FramingRPCNext, 0, reply)
	add(FramingRPCNext, 0, nil)
	add(FramingRPCNext, 0, []byte("stream message"))
	return m
}

func TestFramingsOnTheWire(t *testing.T) {
	call := bytes.Repeat([]byte{0}, 20)
	for f, want := range map[Framing][]byte{
		FramingHTTP:    {0, 0, 0, 20},
		FramingRPC:     {21, 0, 0, 0, DirectionRequest},
		FramingRPCOpen: {21, 0, 0, 0, TagCall},
		FramingRPCNext: {20, 0, 0, 0},
	} {
		got, err := f.AppendPrefix(nil, byte(len(want)-4), len(call))
		if err != nil || !bytes.Equal(got, want) || f.PrefixLen() != len(want) {
			t.Errorf("framing %d: %x, %v; want %x", f, got, err, want)
		}
	}
	got, err := AppendStreamFrame(nil, DirectionStreamMessage, 7, []byte("m"))
	if want := []byte{6, 0, 0, 0, 4, 7, 0, 0, 0, 'm'}; err != nil || !bytes.Equal(got, want) {
		t.Errorf("stream message: %x, %v", got, err)
	}
}

func TestFramesAreReadFromAStreamIntoAReusedBuffer(t *testing.T) {
	for f, s := range framed(t) {
		for name, r := range map[string]io.Reader{
			"at once":        bytes.NewReader(s.stream),
			"byte by byte":   iotest.OneByteReader(bytes.NewReader(s.stream)),
			"data with EOF":  iotest.DataErrReader(bytes.NewReader(s.stream)),
			"half at a time": iotest.HalfReader(bytes.NewReader(s.stream)),
		} {
			in := bufio.NewReaderSize(r, 16)
			var buf []byte
			for i, want := range s.frames {
				got, err := f.Read(in, buf, 0)
				if err != nil || got.Tag != want.Tag || !bytes.Equal(got.Bytes, want.Bytes) {
					t.Fatalf("framing %d, %s, frame %d: %d, %v", f, name, i, got.Tag, err)
				}
				buf = got.Bytes
			}
			if _, err := f.Read(in, buf, 0); !errors.Is(err, io.EOF) {
				t.Errorf("framing %d, %s: at the end %v", f, name, err)
			}
		}
	}
}

func TestAStreamThatEndsInsideAFrameEndsUnexpectedly(t *testing.T) {
	for f, s := range framed(t) {
		first := f.PrefixLen() + len(s.frames[0].Bytes)
		for n := 1; n < first; n++ {
			if _, err := f.Read(bufio.NewReader(bytes.NewReader(s.stream[:n])), nil, 0); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("framing %d cut at %d: %v", f, n, err)
			}
		}
	}
}

func TestNextTellsTheLengthAsSoonAsItCan(t *testing.T) {
	for f, s := range framed(t) {
		rest := s.stream
		for i, want := range s.frames {
			whole := f.PrefixLen() + len(want.Bytes)
			for n := range min(whole, 64) {
				got, err := f.Next(rest[:n], 0)
				if err != nil || n < f.PrefixLen() && got != 0 || n >= f.PrefixLen() && got != whole {
					t.Fatalf("framing %d, frame %d, %d bytes at hand: %d, %v", f, i, n, got, err)
				}
			}
			n, err := f.Next(rest, 0)
			if err != nil || n != whole {
				t.Fatalf("framing %d, frame %d: %d, %v", f, i, n, err)
			}
			var got Frame
			if got, rest = f.Cut(rest, n); got.Tag != want.Tag || !bytes.Equal(got.Bytes, want.Bytes) {
				t.Errorf("framing %d, frame %d: %v", f, i, got)
			}
		}
		if len(rest) != 0 {
			t.Errorf("framing %d: %d bytes left", f, len(rest))
		}
	}
}

func TestFramesThatCannotBeRightAreRefusedEarly(t *testing.T) {
	valid := framed(t)[FramingHTTP].stream
	for name, c := range map[string]struct {
		f    Framing
		in   []byte
		want error
	}{
		"HTTP/1 on a ZAP port":         {FramingHTTP, []byte("GET / HTTP/1.1\r\n"), ErrTooLarge},
		"a TLS hello on a ZAP port":    {FramingHTTP, []byte{0x16, 3, 1, 2, 0}, ErrTooLarge},
		"a byte over the limit":        {FramingHTTP, binary.BigEndian.AppendUint32(nil, DefaultLimit+1), ErrTooLarge},
		"RPC over the limit":           {FramingRPC, binary.LittleEndian.AppendUint32(nil, DefaultLimit+2), ErrTooLarge},
		"RPC of no bytes":              {FramingRPC, make([]byte, 4), ErrShort},
		"an unknown direction":         {FramingRPC, []byte{32, 0, 0, 0, 6}, ErrTag},
		"direction 0":                  {FramingRPC, []byte{32, 0, 0, 0, 0}, ErrTag},
		"an unknown tag":               {FramingRPCOpen, []byte{32, 0, 0, 0, 3}, ErrTag},
		"a message without its header": {FramingHTTP, []byte{0, 0, 0, 15}, ErrShort},
		"a stream message without id":  {FramingRPC, []byte{4, 0, 0, 0, 4}, ErrShort},
		"no ZAP behind the length":     {FramingHTTP, append([]byte{0, 0, 1, 0}, make([]byte, 16)...), ErrMagic},
		"a size under the length":      {FramingHTTP, append([]byte{0, 0, 1, 0}, valid[4:20]...), ErrTrailing},
		"a size over the length":       {FramingHTTP, append([]byte{0, 0, 0, 17}, valid[4:21]...), ErrSize},
	} {
		if _, err := c.f.Next(c.in, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: Next says %v, want %v", name, err, c.want)
		}
		if _, err := c.f.Read(bufio.NewReader(bytes.NewReader(c.in)), nil, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: Read says %v, want %v", name, err, c.want)
		}
	}
	if n, err := FramingHTTP.Next(binary.BigEndian.AppendUint32(nil, DefaultLimit), 0); err != nil || n != DefaultLimit+4 {
		t.Errorf("a frame of just the limit: %d, %v", n, err)
	}
}

func TestWritersRefuseFramesThatReadersRefuse(t *testing.T) {
	if _, err := FramingRPC.AppendPrefix(nil, 6, 16); !errors.Is(err, ErrTag) {
		t.Errorf("direction 6: %v", err)
	}
	if _, err := FramingHTTP.AppendPrefix(nil, 0, 15); !errors.Is(err, ErrShort) {
		t.Errorf("15 bytes: %v", err)
	}
	if _, err := AppendStreamFrame(nil, DirectionRequest, 1, nil); !errors.Is(err, ErrTag) {
		t.Errorf("a stream message as a request: %v", err)
	}
	if _, err := AppendRPCResponse(nil, &RPCResponse{Status: 201}); !errors.Is(err, ErrRPCStatus) {
		t.Errorf("status 201: %v", err)
	}
	if _, _, err := ParseStreamFrame([]byte{1, 2, 3}); !errors.Is(err, ErrShort) {
		t.Errorf("three bytes of an id: %v", err)
	}
}

// dribble gives a prefix, then a few bytes, then nothing more.
type dribble struct {
	r       io.Reader
	largest int // buffer that a Read was given
}

func (d *dribble) Read(p []byte) (int, error) {
	d.largest = max(d.largest, len(p))
	return d.r.Read(p)
}

func TestAnAnnouncedLengthCostsNothingUntilBytesArrive(t *testing.T) {
	head, err := AppendDataHead(nil, Prefix, DefaultLimit-DataHeadLen)
	if err != nil {
		t.Fatal(err)
	}
	for _, sent := range []int{4, 19, 20, 5_000, 70_000} {
		in := append(bytes.Clone(head), make([]byte, 70_000)...)[:sent]
		d := &dribble{r: bytes.NewReader(in)}
		r := bufio.NewReaderSize(d, 4096)
		allocated := testing.AllocsPerRun(1, func() {
			d.r = bytes.NewReader(in)
			r.Reset(d)
			if _, err := FramingHTTP.Read(r, nil, 0); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes sent: %v", sent, err)
			}
		})
		if most := max(2*firstStep, 4*sent); d.largest > most {
			t.Errorf("%d bytes sent, a buffer of %d read into", sent, d.largest)
		}
		if sent < 20 && allocated > 2 { // the reader above, and the error
			t.Errorf("%d bytes sent: %v allocations", sent, allocated)
		}
	}
}
