"""The entities of the invented world. Every fifth entry of each pool is held out."""

from __future__ import annotations

from speclab.training.corpus.grammar import entries

GIRLS = entries(
    "Mira Anna Lily Nora Zelda Sara Emma Ruth Clara Ottilie Ivy Rosa Tess Hana Wilma Lena Maya "
    "Greta Alice Freya Dora Kira Pia Nell Yasmin"
)
BOYS = entries(
    "Tom Ben Sam Leo Rufus Max Finn Oscar Jack Dmitri Noah Hugo Paul Adam Kofi Owen Emil Milo "
    "Peter Anselm Karl Ravi Theo Luke Barnaby"
)
ELDERS = entries(
    "the baker,the miller,the postman,the librarian,the clockmaker,the fisherman,the gardener,"
    "the shepherd,the teacher,the ferryman,the blacksmith,the carpenter,the beekeeper,"
    "the doctor,the potter",
    ",",
)
ANIMALS = entries(
    "fox,rabbit,hedgehog,owl,badger,squirrel,duck,mouse,goat,otter,frog,crow,kitten,puppy,weasel,"
    "deer,turtle,sparrow,donkey,lynx,lamb,goose,mole,robin,heron",
    ",",
)
PLACES = entries(
    "forest,river,market,mill,quarry,garden,lake,bridge,barn,lighthouse,library,hill,harbour,"
    "meadow,windmill,school,orchard,cave,village square,chapel,beach,farm,bakery,well,tower,"
    "valley,workshop,station,pond,abbey",
    ",",
)
THINGS = entries(
    "key,lantern,kite,map,compass,drum,ball,hat,whistle,locket,boat,book,bell,basket,flute,ring,"
    "scarf,coin,clock,marble,blanket,ladder,rope,mirror,violin,box,button,spoon,umbrella,"
    "telescope,wagon,painting,knife,letter,puppet",
    ",",
)
FOODS = entries(
    "bread,apples,cheese,soup,figs,honey,carrots,plums,rice,walnuts,milk,eggs,pears,butter,"
    "lentils,potatoes,cherries,onions,nuts,barley,beans,tomatoes,mushrooms,salt,radishes,sugar,"
    "flour,oats,grapes,ginger",
    ",",
)
COLOURS = entries("red blue green yellow violet white black brown grey crimson")
SIZES = entries("small big tiny large narrow long round heavy light crooked")
MATERIALS = entries("wood paper stone clay ivory glass iron straw cloth copper")
MOODS = entries("happy tired curious worried restless proud sad hungry excited lonely")
WEATHERS = entries("sunny,rainy,windy,cold,misty,snowy,cloudy,warm,stormy,frosty", ",")
TIMES = (
    "one morning",
    "one evening",
    "one afternoon",
    "early one day",
    "one day before dawn",
    "late one night",
    "in the spring",
    "on the first day of summer",
    "one autumn day",
    "one day in the deep of winter",
)
GOODNESS = entries("kind brave clever patient humble honest careful quiet gentle stubborn")
TOWNS = entries(
    "Alder,Brook,Carrow,Dunmere,Ebben,Farley,Glenna,Hollin,Istan,Jorvale,Kestrel,Lowen,Marrow,"
    "Nettle,Orlin,Penny,Quill,Rowan,Selby,Thistle,Umber,Velden,Wick,Yarrow,Zennor",
    ",",
)
RIVERS = entries("Ash,Birch,Clay,Dove,Elm,Fern,Gull,Heath,Iron,Jade", ",")
