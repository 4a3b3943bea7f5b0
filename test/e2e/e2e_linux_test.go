package e2e

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/bongsu-io/bongsu/internal/testing/audit"
)

func TestTheOperatorOnARealNode(t *testing.T) {
	w := newWorld(t)
	w.part(t, "a node becomes ready", func(t *testing.T) { w.await(t, "node/worker", "", condition("Ready"), "True") })
	before := w.objects(t)
	w.part(t, "it is installed", w.install)
	w.part(t, "a node that joins is told of", w.nodeJoins)
	w.part(t, "a notebook of the real server comes up", w.startNotebook)
	w.part(t, "why pods fail is told", w.podsFail)
	w.part(t, "secrets are shared", w.shareSecrets)
	w.part(t, "apps are checked", w.checkApps)
	w.part(t, "a dead node is told of", w.nodeDies)
	w.part(t, "an idle notebook is stopped and started again", w.cullNotebook)
	w.part(t, "the leader is evicted in a flood", w.evictLeader)
	w.part(t, "it is upgraded in a flood", w.upgrade)
	w.part(t, "its rights sufficed", w.rightsSuffice)
	w.part(t, "it is removed", func(t *testing.T) { w.uninstall(t, before) })
}

// rightsSuffice demands that nothing was refused to the operator. Which of its rights it
// has no use for, all tests tell together: see test/rights.
func (w *world) rightsSuffice(t *testing.T) {
	requests := audit.Requests(t, w.AuditLog(), audit.Operator)
	if len(requests) == 0 {
		t.Fatal("the audit log tells of no request of the operator's")
	}
	NewWithT(t).Expect(audit.Denied(requests)).To(BeEmpty(), "what the operator asked for and has no right to")
	NewWithT(t).Expect(audit.Remember(w.AuditLog())).To(Succeed())
}
