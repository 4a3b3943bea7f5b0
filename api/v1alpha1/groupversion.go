package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all kinds of Bongsu.
const Group = "bongsu.io"

// SchemeGroupVersion is the group and version of the kinds of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the kinds of this package.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Alarm{}, &AlarmList{},
		&ClusterAlarm{}, &ClusterAlarmList{},
		&AlarmReceiver{}, &AlarmReceiverList{},
		&ClusterAlarmReceiver{}, &ClusterAlarmReceiverList{},
		&SecretShare{}, &SecretShareList{},
		&ClusterSecretShare{}, &ClusterSecretShareList{},
		&SecretShareGrant{}, &SecretShareGrantList{},
		&Jupyter{}, &JupyterList{},
		&AppService{}, &AppServiceList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
