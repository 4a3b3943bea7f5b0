package workload

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// tokenKey is the token's key in a Secret of ours.
const tokenKey = "token"

// TokenRef names the Secret and key that hold what a visitor must show.
func TokenRef(j *v1alpha1.Jupyter) v1alpha1.SecretKeyReference {
	if ref := j.Spec.Auth.TokenSecretRef; ref != nil {
		return v1alpha1.SecretKeyReference{Name: ref.Name, Key: ref.Key}
	}
	return v1alpha1.SecretKeyReference{Name: j.Name + "-token", Key: tokenKey}
}

// NotebookToken is the Secret of a token that was made for the Jupyter.
func NotebookToken(j *v1alpha1.Jupyter, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: childMeta(j, j.Name+"-token"),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{tokenKey: []byte(token)},
	}
}
