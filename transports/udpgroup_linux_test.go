package transports

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// groupedPair is a sender and a socket that takes its datagrams in groups.
func groupedPair(t *testing.T) (*net.UDPConn, *groupedUDP) {
	t.Helper()
	local := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}
	to, err := net.ListenUDP("udp", local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	g, ok := grouped(to, listenGroups).(*groupedUDP)
	if !ok {
		t.Skip("this kernel does not group datagrams")
	}
	from, err := net.DialUDP("udp", nil, to.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	return from, g
}

// sendGroup sends p as datagrams of a size, in one system call.
func sendGroup(t *testing.T, c *net.UDPConn, p []byte, size uint16) {
	t.Helper()
	control := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(control[unix.CmsgLen(0):], size)
	if _, _, err := c.WriteMsgUDP(p, control, nil); err != nil {
		t.Skipf("this kernel does not segment: %v", err)
	}
}

// readAll reads n datagrams into messages of a capacity.
func readAll(t *testing.T, g *groupedUDP, n, capacity int) (out [][]byte, control [][]byte) {
	t.Helper()
	if err := g.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for len(out) < n {
		ms := make([]ipv4.Message, 8)
		for i := range ms {
			ms[i].Buffers, ms[i].OOB = [][]byte{make([]byte, capacity)}, make([]byte, 128)
		}
		got, err := g.ReadBatch(ms, 0)
		if err != nil || got == 0 {
			t.Fatalf("%d datagrams, then %d: %v", len(out), got, err)
		}
		for _, m := range ms[:got] {
			if m.Addr == nil {
				t.Fatal("a datagram comes from nowhere")
			}
			out, control = append(out, m.Buffers[0][:m.N]), append(control, m.OOB[:m.NN])
		}
	}
	return out, control
}

func TestAGroupIsReadAsTheDatagramsThatWereSent(t *testing.T) {
	from, g := groupedPair(t)
	raw, err := g.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS, 1) }); err != nil {
		t.Fatal(err)
	}
	const size = 1200
	sent := make([]byte, 20*size+77) // the last is shorter
	for i := range sent {
		sent[i] = byte(i / size * 7)
	}
	sendGroup(t, from, sent, size)
	got, control := readAll(t, g, 21, 1452)
	if n := g.groups[0].N; n != len(sent) {
		t.Errorf("the kernel has handed over %d bytes, wanted the %d that were sent at once", n, len(sent))
	}
	if _, err := from.Write([]byte("alone")); err != nil {
		t.Fatal(err)
	}
	last, more := readAll(t, g, 1, 1452)
	got, control = append(got, last...), append(control, more...)
	for i, p := range got[:21] {
		if want := sent[i*size : min(len(sent), (i+1)*size)]; !bytes.Equal(p, want) {
			t.Fatalf("datagram %d has %d bytes, wanted %d", i, len(p), len(want))
		}
	}
	if string(got[21]) != "alone" {
		t.Errorf("the last is %q", got[21])
	}
	for i, c := range control {
		all, err := unix.ParseSocketControlMessage(c)
		if err != nil || len(all) != 1 || all[0].Header.Level != unix.IPPROTO_IP || all[0].Header.Type != unix.IP_TOS {
			t.Fatalf("datagram %d has control messages %+v, wanted ECN alone: %v", i, all, err)
		}
	}
}

func TestWhatIsLongerThanTheRoomIsCutOff(t *testing.T) {
	from, g := groupedPair(t)
	sendGroup(t, from, bytes.Repeat([]byte("x"), 5000), 2000)
	got, _ := readAll(t, g, 3, 1452)
	for i, want := range []int{1452, 1452, 1000} {
		if len(got[i]) != want {
			t.Errorf("datagram %d has %d bytes, wanted %d", i, len(got[i]), want)
		}
	}
}

func TestAClosedSocketEndsItsReader(t *testing.T) {
	_, g := groupedPair(t)
	failed := make(chan error, 1)
	go func() {
		ms := []ipv4.Message{{Buffers: [][]byte{make([]byte, 100)}, OOB: make([]byte, 128)}}
		_, err := g.ReadBatch(ms, 0)
		failed <- err
	}()
	_ = g.Close()
	if err := <-failed; err == nil {
		t.Error("it reads on")
	}
}
