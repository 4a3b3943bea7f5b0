package localcluster

import (
	"net"
	"testing"

	. "github.com/onsi/gomega"
)

func newPorts(t *testing.T) (*ports, layout) {
	t.Helper()
	dir := layout(t.TempDir())
	p := loadPorts(dir)
	t.Cleanup(p.release)
	return p, dir
}

func TestAClusterOwnsItsPortsUntilItStops(t *testing.T) {
	g := NewWithT(t)
	first, dir := newPorts(t)
	g.Expect(first.ensure(dir, Etcd, etcdPeer, APIServer)).To(Succeed())
	port := first.of(APIServer)
	g.Expect(port).To(And(BeNumerically(">=", firstPort), BeNumerically("<=", lastPort)))
	g.Expect([]int{first.of(Etcd), first.of(etcdPeer)}).NotTo(ContainElement(port))

	// Nothing listens on the port.
	second, otherDir := newPorts(t)
	second.number[APIServer] = port
	g.Expect(second.ensure(otherDir, APIServer)).To(Succeed())
	g.Expect(second.of(APIServer)).NotTo(Equal(port))
	g.Expect(first.ensure(dir, APIServer)).To(Succeed())
	g.Expect(first.of(APIServer)).To(Equal(port))

	first.release()
	third, _ := newPorts(t)
	third.number[APIServer] = port
	g.Expect(third.ensure(otherDir, APIServer)).To(Succeed())
	g.Expect(third.of(APIServer)).To(Equal(port))
}

func TestAPortThatAnotherProcessTakesIsReplaced(t *testing.T) {
	g := NewWithT(t)
	p, dir := newPorts(t)
	g.Expect(p.ensure(dir, APIServer)).To(Succeed())
	port := p.of(APIServer)
	taken, err := net.Listen("tcp", p.address(APIServer))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = taken.Close() }()

	g.Expect(p.ensure(dir, APIServer)).To(Succeed())
	g.Expect(p.of(APIServer)).NotTo(Equal(port))
	g.Expect(loadPorts(dir).of(APIServer)).To(Equal(p.of(APIServer)), "the stored port")
}
