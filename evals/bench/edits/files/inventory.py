"""Stock of a small shop: what is there, what it costs, what must be ordered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Product:
    """Something on the shelf."""

    code: str
    name: str
    price_cents: int
    quantity: int = 0


class Inventory:
    """All products by code."""

    def __init__(self) -> None:
        self._products: dict[str, Product] = {}

    def add_product(self, product: Product) -> None:
        if product.code in self._products:
            raise ValueError(f"product {product.code} exists already")
        self._products[product.code] = product

    def receive(self, code: str, quantity: int) -> None:
        """Goods have come in."""
        self._find(code).quantity += quantity

    def sell(self, code: str, quantity: int) -> int:
        """Take goods out; what they cost together, in cents."""
        product = self._find(code)
        if quantity > product.quantity:
            raise ValueError(f"only {product.quantity} of {product.name} left")
        product.quantity -= quantity
        return quantity * product.price_cents

    def total_value(self) -> int:
        """Worth of the whole stock in cents."""
        return sum(product.quantity * product.price_cents for product in self._products.values())

    def running_low(self) -> list[Product]:
        """Products of which fewer than five are left, the scarcest first."""
        low = [product for product in self._products.values() if product.quantity < 5]
        return sorted(low, key=lambda product: product.quantity)

    def report(self) -> str:
        lines = []
        for product in sorted(self._products.values(), key=lambda product: product.name):
            price = f"{product.price_cents / 100:.2f}"
            lines.append(f"{product.name:<20} {product.quantity:>5} {price:>8}")
        return "\n".join(lines)

    def _find(self, code: str) -> Product:
        if code not in self._products:
            raise KeyError(f"no product with code {code}")
        return self._products[code]
