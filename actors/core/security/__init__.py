"""The rules of authentication and authorization: SASL mechanisms, JAAS entries, principals and ACLs."""
