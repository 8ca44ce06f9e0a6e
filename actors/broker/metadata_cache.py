"""MetadataCacheActor: what the controller says of the cluster, and what clients are told (core.metadata_cache)."""

from __future__ import annotations

from thespian.actors import ActorAddress

from actors.core.broker.metadata_cache import MetadataCache
from actors.runtime import Answerer
from messages.broker import AliveBrokers, Forwarded, GetAliveBrokers, MergeMetadata
from messages.conversation import Done
from messages.network import ClientPart, ClientResponse
from messages.node import StartMetadataCache
from messages.parts import cut
from messages.vocabulary import Message


class MetadataCacheActor(Answerer):
    """Takes over UpdateMetadata from the replica manager, and answers Metadata to clients."""

    def __init__(self) -> None:
        super().__init__()
        self._cache = MetadataCache()
        self._cluster_id = ""

    def receiveMsg_StartMetadataCache(self, message: StartMetadataCache, sender: ActorAddress) -> None:
        """The cluster's id, which every answer names."""
        self._cluster_id = message.cluster_id

    def answer(self, question: Message) -> Message:
        """A question of the replica manager."""
        match question:
            case MergeMetadata(request):
                self._cache.merge(request)
                return Done()
            case GetAliveBrokers():
                return AliveBrokers(tuple(self._cache.brokers))
        raise TypeError(f"{type(question).__name__} is no question for the metadata cache")

    def receiveMsg_Forwarded(self, message: Forwarded, sender: ActorAddress) -> None:
        """A client's Metadata request."""
        request = message.request
        response = self._cache.answer(request.request, self._cluster_id, request.listener)
        parts, last = cut(response)
        for part in parts:
            self.send(message.client, ClientPart(request.connection, part))
        self.send(message.client, ClientResponse(request.connection, request.correlation_id, last))
