package diagnosis

import corev1 "k8s.io/api/core/v1"

// SumUp sums up the nodes of a cluster.
func SummarizeNodes(nodes []corev1.Node) *Nodes {
	sum := &Nodes{Total: len(nodes)}
	for i := range nodes {
		allocatable := nodes[i].Status.Allocatable
		if cpu := allocatable.Cpu(); cpu.Cmp(sum.CPU) > 0 {
			sum.CPU = *cpu
		}
		if memory := allocatable.Memory(); memory.Cmp(sum.Memory) > 0 {
			sum.Memory = *memory
		}
	}
	return sum
}
