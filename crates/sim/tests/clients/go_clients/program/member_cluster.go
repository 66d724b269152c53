package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A kind of the fleet as an author of controllers would write it: only what is needed.
type MemberCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MemberClusterSpec   `json:"spec"`
	Status MemberClusterStatus `json:"status,omitempty"`
}

type MemberClusterSpec struct {
	Identity               Identity `json:"identity"`
	HeartbeatPeriodSeconds int32    `json:"heartbeatPeriodSeconds,omitempty"`
}

type Identity struct {
	Kind      string `json:"kind"`
	APIGroup  string `json:"apiGroup,omitempty"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

type MemberClusterStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MemberCluster `json:"items"`
}

func (m *MemberCluster) DeepCopyObject() runtime.Object {
	copied := *m
	copied.ObjectMeta = *m.ObjectMeta.DeepCopy()
	copied.Status.Conditions = nil
	for _, condition := range m.Status.Conditions {
		copied.Status.Conditions = append(copied.Status.Conditions, *condition.DeepCopy())
	}
	return &copied
}

func (l *MemberClusterList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.ListMeta = *l.ListMeta.DeepCopy()
	copied.Items = nil
	for at := range l.Items {
		copied.Items = append(copied.Items, *l.Items[at].DeepCopyObject().(*MemberCluster))
	}
	return &copied
}

func addMemberClusters(scheme *runtime.Scheme) {
	version := schema.GroupVersion{Group: memberClusters.Group, Version: memberClusters.Version}
	scheme.AddKnownTypes(version, &MemberCluster{}, &MemberClusterList{})
	metav1.AddToGroupVersion(scheme, version)
}
